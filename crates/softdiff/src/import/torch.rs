//! A torch checkpoint: tensors are views (offset, size, stride) of storages, which are entries of the archive.
//!
//! Invariant: a tensor is copied out only after its last element was found to lie inside its storage, and after the bytes
//! it needs were charged to the file's budget.

mod dtype;
mod layout;
mod legacy;

pub use dtype::{DType, Numbers};

use super::ImportError;
use super::pickle::{self, Global, Pickle, PickleNode, PickleValue};
use crate::archive::ArchiveError;
use crate::archive::zip::{Archive, Rules};
use layout::TensorLayout;
use softdiff_data::quote::quote;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// The tensors of a file may need this many times the file's bytes, so that views with stride 0 cannot eat the memory.
pub const MAX_EXPANSION: u64 = 2;
/// Small files may always use this much.
pub const MIN_BUDGET: u64 = 1 << 20;
/// Some ten times the entries of a full NCSN++ checkpoint; torch compresses none.
const ARCHIVE_RULES: Rules = Rules { max_entries: 1 << 16, deflated: false };
/// The first bytes of `torch.save` before 1.6: a pickled magic number.
const LEGACY_MAGIC: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

/// A tensor copied out of its storage, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct TorchTensor {
    /// The size along each axis.
    pub shape: Vec<usize>,
    /// What the file stored.
    pub dtype: DType,
    /// The numbers, widened without loss.
    pub data: Numbers,
}

/// An open checkpoint.
pub struct TorchFile<'a> {
    content: Content<'a>,
    pickle: Pickle,
    /// Storages whose CRC was checked.
    storages: RefCell<HashMap<String, &'a [u8]>>,
    budget: u64,
    spent: Cell<u64>,
}

/// Where the storages lie.
enum Content<'a> {
    /// In the archive, all under one folder.
    Zip { archive: Archive<'a>, folder: String },
    /// One after the other behind the pickles of the old format, by key.
    Legacy(HashMap<String, &'a [u8]>),
}

impl<'a> TorchFile<'a> {
    /// Reads either format.
    pub fn open_any(bytes: &'a [u8]) -> Result<Self, ImportError> {
        if !bytes.starts_with(LEGACY_MAGIC) {
            return TorchFile::open(bytes);
        }
        let (pickle, storages) = legacy::read(&bytes[LEGACY_MAGIC.len()..])?;
        Ok(TorchFile::new(bytes, Content::Legacy(storages), pickle))
    }

    fn new(bytes: &'a [u8], content: Content<'a>, pickle: Pickle) -> Self {
        let budget = (bytes.len() as u64).saturating_mul(MAX_EXPANSION).max(MIN_BUDGET);
        TorchFile { content, pickle, storages: RefCell::default(), budget, spent: Cell::new(0) }
    }

    /// Reads the archive's directory and its pickle.
    pub fn open(bytes: &'a [u8]) -> Result<Self, ImportError> {
        if bytes.starts_with(LEGACY_MAGIC) {
            return Err(ImportError::LegacyTorch);
        }
        let archive = Archive::open(bytes, ARCHIVE_RULES)?;
        let folder = find_folder(&archive)?;
        let order = format!("{folder}/byteorder");
        if archive.names().any(|name| name == order) {
            let found = archive.read(&order)?;
            if found != b"little" {
                let found = quote(&String::from_utf8_lossy(found));
                return Err(ImportError::ByteOrder { part: order, found });
            }
        }
        let pickle = pickle::read(archive.read(&format!("{folder}/data.pkl"))?)?;
        Ok(TorchFile::new(bytes, Content::Zip { archive, folder }, pickle))
    }

    /// The outermost value of the pickle.
    pub fn root(&self) -> PickleNode<'_> {
        self.pickle.root()
    }

    /// The tensor that a value describes.
    pub fn tensor(&self, node: &PickleNode) -> Result<TorchTensor, ImportError> {
        let arguments = match node.value() {
            // A parameter is a tensor in a wrapper; it cannot be wrapped twice.
            PickleValue::Call { function: Global::RebuildParameter, arguments, .. } => {
                let [inner] = node.at(*arguments).tuple("the arguments of a parameter")?;
                tensor_arguments(&inner)?
            }
            _ => tensor_arguments(node)?,
        };
        let [storage, offset, size, stride] = arguments.tuple("the arguments of a tensor")?;
        let (dtype, key, bytes) = self.storage(&storage)?;
        let layout = TensorLayout::read(&offset, &size, &stride)?;
        let elements = (bytes.len() / dtype.bytes()) as u64;
        layout.check(elements, key, &node.place())?;
        self.charge(layout.count().saturating_mul(dtype.wide_bytes()), node)?;
        let data = dtype.widen(&layout.gather(bytes, dtype.bytes()));
        Ok(TorchTensor { shape: layout.into_shape(), dtype, data })
    }

    fn charge(&self, bytes: u64, node: &PickleNode) -> Result<(), ImportError> {
        let bytes = self.spent.get().saturating_add(bytes);
        if bytes > self.budget {
            return Err(ImportError::TensorBudget { place: node.place(), bytes, limit: self.budget });
        }
        self.spent.set(bytes);
        Ok(())
    }

    /// `("storage", type, key, location, elements)`, and the entry of that key, exactly as long as said.
    fn storage<'n>(&self, node: &PickleNode<'n>) -> Result<(DType, &'n str, &'a [u8]), ImportError> {
        let &PickleValue::Persistent(description) = node.value() else { return Err(node.wrong("a storage")) };
        let [tag, kind, key, _location, elements] = node.at(description).tuple("the description of a storage")?;
        if tag.text()? != "storage" {
            return Err(tag.wrong("the tag \"storage\""));
        }
        let &PickleValue::Global(Global::Storage(dtype)) = kind.value() else {
            return Err(kind.wrong("a storage type"));
        };
        let key = key.text()?;
        let bytes = self.storage_bytes(key)?;
        let elements = elements.integer()?;
        let expected = u64::try_from(elements).ok().and_then(|count| count.checked_mul(dtype.bytes() as u64));
        if expected != Some(bytes.len() as u64) {
            return Err(ImportError::StorageLength {
                place: node.place(),
                key: quote(key),
                expected: format!("{elements} x {}", dtype.bytes()),
                found: bytes.len() as u64,
            });
        }
        Ok((dtype, key, bytes))
    }

    fn storage_bytes(&self, key: &str) -> Result<&'a [u8], ImportError> {
        if let Some(bytes) = self.storages.borrow().get(key) {
            return Ok(bytes);
        }
        let bytes = match &self.content {
            Content::Zip { archive, folder } => archive.read(&format!("{folder}/data/{key}"))?,
            Content::Legacy(storages) => {
                let missing = || ArchiveError::MissingEntry { name: quote(key) };
                storages.get(key).copied().ok_or_else(missing)?
            }
        };
        self.storages.borrow_mut().insert(key.to_string(), bytes);
        Ok(bytes)
    }
}

fn tensor_arguments<'n>(node: &PickleNode<'n>) -> Result<PickleNode<'n>, ImportError> {
    match node.value() {
        PickleValue::Call { function: Global::RebuildTensor, arguments, .. } => Ok(node.at(*arguments)),
        _ => Err(node.wrong("a tensor")),
    }
}

/// The folder of the one `<folder>/data.pkl`; its name is that of the file when it was saved.
fn find_folder(archive: &Archive) -> Result<String, ImportError> {
    let mut folders = archive.names().filter_map(|name| {
        let folder = name.strip_suffix("/data.pkl")?;
        (!folder.contains('/')).then(|| folder.to_string())
    });
    match (folders.next(), folders.next()) {
        (Some(folder), None) => Ok(folder),
        (Some(first), Some(second)) => Err(ImportError::TwoPickles { first: quote(&first), second: quote(&second) }),
        _ => Err(ArchiveError::MissingEntry { name: "data.pkl".into() }.into()),
    }
}
