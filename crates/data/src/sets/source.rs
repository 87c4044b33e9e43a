//! A place with images: what it is, and how many.

use super::pictures::{Exif, Opened, StoredPictures};
use super::{DataError, FileError, MAX_FILE_BYTES, MAX_MAPPED_BYTES, MAX_PICTURES};
use super::{archive_source, cifar, embedded, folder, idx, named, npy, npz, parquet};
use crate::archive::inflate::{self, GZIP_MAGIC};
use crate::archive::{tar, zip};
use crate::image::{Format, Picture};
use crate::quote::quote;
use softdiff_engine::shared_bytes::{SharedBytes, SharedBytesError};
use std::path::{Path, PathBuf};

/// A part of a data set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// The training part; everything, where the source has no parts.
    #[default]
    Train,
    /// The test part.
    Test,
    /// Everything.
    All,
}

impl Split {
    /// The part that a folder or file of this name holds.
    pub(super) fn of_name(name: &str) -> Option<Split> {
        match name.to_ascii_lowercase().as_str() {
            "train" | "training" => Some(Split::Train),
            "test" | "testing" | "val" | "valid" | "validation" | "dev" => Some(Split::Test),
            _ => None,
        }
    }

    /// The places of this part, where `All` among `parts` means "of no part".
    pub(super) fn choose(self, parts: &[Split], path: &Path) -> Result<Vec<usize>, DataError> {
        let divided = parts.iter().any(|&part| part != Split::All);
        let wanted = |part: Split| self == Split::All || part == self || (!divided && self == Split::Train);
        let chosen: Vec<usize> = (0..).zip(parts).filter(|&(_, &part)| wanted(part)).map(|(place, _)| place).collect();
        if chosen.is_empty() && !parts.is_empty() {
            let split = if self == Split::Test { "test" } else { "train" };
            return Err(DataError::NoSplit { path: path.into(), split });
        }
        Ok(chosen)
    }
}

/// An open source: images by number, decoded when asked for.
pub struct Source {
    path: PathBuf,
    opened: Opened,
}

impl Source {
    /// Finds out what `path` holds: a folder of pictures, zip, tar, tar.gz, CIFAR-10, IDX, npy, npz, Parquet,
    /// `embedded:fashion-mnist`, or data that was fetched by its name, such as `cifar10` ([`named`]). Opens the training part of
    /// sets that have one.
    pub fn open(path: &Path) -> Result<Source, DataError> {
        Source::open_split(path, Split::default())
    }

    /// The same for another part.
    pub fn open_split(path: &Path, split: Split) -> Result<Source, DataError> {
        let opened = match path.to_str().and_then(|path| path.strip_prefix(embedded::PREFIX)) {
            Some(name) => embedded::open(name, split)?,
            None => match named::resolve(path)? {
                place if place.is_dir() => open_folder(&place, split)?,
                place => open_file(&place, split)?,
            },
        };
        Source::with_pictures(path, opened)
    }

    /// A file that is already in memory; `path` only names it (and tells where the labels of an IDX file would lie).
    pub fn from_bytes(path: &Path, bytes: Vec<u8>, split: Split) -> Result<Source, DataError> {
        Source::with_pictures(path, open_bytes(path, bytes.into(), split)?)
    }

    fn with_pictures(path: &Path, opened: Opened) -> Result<Source, DataError> {
        if opened.pictures.is_empty() {
            return Err(DataError::Empty { path: path.into(), ignored: opened.ignored });
        }
        Ok(Source { path: path.into(), opened })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is, in words.
    pub fn format(&self) -> &'static str {
        self.opened.format
    }

    /// How many images it has.
    pub fn len(&self) -> usize {
        self.opened.pictures.len()
    }

    /// Whether it has none; an open source has some.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names of the classes, by label.
    pub fn classes(&self) -> &[String] {
        &self.opened.classes
    }

    /// Files that were passed over because they are no images.
    pub fn ignored(&self) -> usize {
        self.opened.ignored
    }

    /// Where the images come from, as written into the archive with them; as trustworthy as the file.
    pub fn origin(&self) -> Option<&serde_json::Value> {
        self.opened.origin.as_ref()
    }

    /// The file or entry of an image.
    pub fn picture_name(&self, index: usize) -> String {
        self.opened.pictures.name(index)
    }

    /// The class of an image, where known.
    pub fn label(&self, index: usize) -> Option<u32> {
        self.opened.pictures.label(index)
    }

    pub(super) fn release(&self) {
        self.opened.pictures.release();
    }

    pub(super) fn stored(&self) -> Option<StoredPictures> {
        self.opened.pictures.stored()
    }

    /// Decodes one image.
    pub fn read(&self, index: usize, exif: Exif) -> Result<Picture, FileError> {
        self.opened.pictures.read(index, exif)
    }
}

fn open_folder(path: &Path, split: Split) -> Result<Opened, DataError> {
    if let Some(folder) = cifar::recognise_folder(path) {
        return cifar::open_folder(&folder, split);
    }
    for (find, open) in [
        (
            idx::find as fn(&Path) -> Vec<(PathBuf, Split)>,
            idx::open_files as fn(&[PathBuf]) -> Result<Opened, DataError>,
        ),
        (parquet::find, parquet::open_files),
    ] {
        let files = find(path);
        if !files.is_empty() {
            let parts: Vec<Split> = files.iter().map(|&(_, part)| part).collect();
            let files: Vec<PathBuf> = files.into_iter().map(|(file, _)| file).collect();
            return open(&folder::pick(&files, &split.choose(&parts, path)?));
        }
    }
    folder::open(path, split)
}

fn open_file(path: &Path, split: Split) -> Result<Opened, DataError> {
    let bytes = read_within(path, MAX_MAPPED_BYTES).map_err(|error| match error {
        FileError::Io(source) => DataError::Io { path: path.into(), source },
        error => DataError::file(path.display().to_string(), error),
    })?;
    open_bytes(path, bytes, split)
}

fn open_bytes(path: &Path, bytes: SharedBytes, split: Split) -> Result<Opened, DataError> {
    let name = path.display().to_string();
    let bad = |error: FileError| DataError::file(&name, error);
    let bytes = unpacked(bytes).map_err(bad)?;
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
        let index = zip::Index::open(&bytes, archive_source::ZIP_RULES).map_err(|error| bad(error.into()))?;
        return if npz::recognise(&index) {
            npz::open(path, &bytes, &index, split)
        } else {
            archive_source::open_zip(path, bytes, index, split)
        };
    }
    if tar::recognise(&bytes) {
        let entries = tar::read(&bytes, MAX_PICTURES).map_err(|error| bad(error.into()))?;
        let cifar = entries.iter().any(|entry| cifar::is_batch(&entry.name));
        return if cifar {
            cifar::open_tar(path, &bytes, &entries, split)
        } else {
            archive_source::open_tar(path, bytes, entries, split)
        };
    }
    if npy::recognise(&bytes) {
        let pictures =
            npy::Array::read(&bytes).and_then(|array| array.pictures(&file_name(path), &bytes)).map_err(bad)?;
        return Ok(Opened {
            format: "NumPy array",
            pictures: Box::new(pictures),
            classes: Vec::new(),
            ignored: 0,
            origin: None,
        });
    }
    if parquet::recognise(&bytes) {
        return parquet::open_all([(file_name(path), Ok(bytes))]);
    }
    if idx::recognise(&bytes) {
        return idx::open_all([(path.into(), Ok(bytes))]);
    }
    if cifar::is_batch(&file_name(path)) || cifar::is_records(&bytes) {
        return cifar::open_file(&file_name(path), bytes);
    }
    let found = match Format::recognise(&bytes) {
        Some(format) => format!("it is one {} image", format.name()),
        None if bytes.is_empty() => "it is empty".into(),
        None => format!("it begins with {}", quote(&String::from_utf8_lossy(bytes.get(..16).unwrap_or(&bytes)))),
    };
    Err(DataError::Unknown { path: path.into(), found })
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// An ordinary file of at most `limit` bytes; a long one is mapped and not read.
pub(super) fn read_within(path: &Path, limit: u64) -> Result<SharedBytes, FileError> {
    // Looked at before it is opened: a pipe is no file, whatever is in it.
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(FileError::NotAFile);
    }
    if metadata.len() > limit {
        return Err(FileError::TooLarge { bytes: metadata.len(), limit });
    }
    SharedBytes::open(path).map_err(|error| match error {
        SharedBytesError::Io(error) => error.into(),
        SharedBytesError::Memory(error) => error.into(),
    })
}

/// The content of a gzip file; other bytes as they are.
pub(super) fn unpacked(bytes: SharedBytes) -> Result<SharedBytes, FileError> {
    if !bytes.starts_with(GZIP_MAGIC) {
        return Ok(bytes);
    }
    Ok(inflate::gzip(&bytes, MAX_FILE_BYTES, "the gzip file")?.into())
}
