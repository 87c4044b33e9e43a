//! Parquet files with picture bytes, as Hugging Face writes them: a column `image` of structs {bytes, path}, and a label.
//!
//! Our own reader of the needed subset (`docs/decisions/data.md`): flat columns; plain and dictionary pages, versions 1
//! and 2; uncompressed, Snappy, gzip and Zstandard. Values are ranges of pages, so that a dictionary cannot multiply them.

mod codec;
mod column;
mod footer;
mod hybrid;
mod thrift;

use super::pictures::{Chain, Exif, Opened, Pictures};
use super::source::read_within;
use super::{DataError, FileError, MAX_FILE_BYTES, MAX_PICTURE_BYTES, Split};
use crate::image::Picture;
use column::ByteSlice;
use footer::Footer;
use softdiff_engine::memory;
use softdiff_engine::shared_bytes::SharedBytes;
use std::path::{Path, PathBuf};

const FORMAT: &str = "Parquet";
const MAGIC: &[u8] = b"PAR1";
/// Names of a column of pictures, when none has a field `bytes`.
const PICTURE_COLUMNS: [&str; 6] = ["image", "img", "picture", "jpg", "png", "webp"];
/// Names of a column of labels.
const LABEL_COLUMNS: [&str; 6] = ["label", "labels", "fine_label", "class", "target", "y"];

fn damaged(reason: impl Into<String>) -> FileError {
    FileError::damaged(FORMAT, reason)
}

fn unsupported(what: impl Into<String>) -> FileError {
    FileError::unsupported(FORMAT, what)
}

/// Whether these bytes begin like a Parquet file.
pub fn recognise(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The Parquet files of a folder or of its folder `data`, sorted by name, with the part each belongs to.
pub fn find(folder: &Path) -> Vec<(PathBuf, Split)> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut files: Vec<PathBuf> = entries
            .filter(|path| path.extension().is_some_and(|ending| ending == "parquet") && path.is_file())
            .collect();
        files.sort();
        files
    };
    let mut files = list(folder);
    if files.is_empty() {
        files = list(&folder.join("data"));
    }
    let part = |path: &Path| {
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        Split::of_name(name.split(['-', '_', '.']).next().unwrap_or_default()).unwrap_or(Split::All)
    };
    files.into_iter().map(|path| (path.clone(), part(&path))).collect()
}

/// Reads the files, one after the other.
pub fn open_files(files: &[PathBuf]) -> Result<Opened, DataError> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    open_all(files.iter().map(|path| (name(path), read_within(path, MAX_FILE_BYTES))))
}

/// The same for files in memory.
pub fn open_all(
    files: impl IntoIterator<Item = (String, Result<SharedBytes, FileError>)>,
) -> Result<Opened, DataError> {
    let mut classes = Vec::new();
    let mut parts: Vec<Box<dyn Pictures>> = Vec::new();
    for (name, bytes) in files {
        let file = bytes.and_then(|bytes| File::read(name.clone(), bytes, &mut classes));
        parts.push(Box::new(file.map_err(|error| DataError::file(name, error))?));
    }
    Ok(Opened { format: "Parquet", pictures: Box::new(Chain(parts)), classes, ignored: 0, origin: None })
}

/// The images of one file, not yet decoded.
struct File {
    name: String,
    pictures: Vec<Option<ByteSlice>>,
    labels: Option<Vec<u32>>,
}

impl File {
    fn read(name: String, bytes: SharedBytes, classes: &mut Vec<String>) -> Result<File, FileError> {
        let footer = Footer::read(&bytes)?;
        let picture_leaf = footer.picture_leaf(&PICTURE_COLUMNS).ok_or_else(|| {
            unsupported(format!(
                "no column of image bytes among {}; expected image, img or a struct with bytes",
                footer.names()
            ))
        })?;
        // Pages that are packed are kept unpacked.
        let mut budget = MAX_FILE_BYTES.min(memory::available().0);
        let pictures = column::byte_arrays(&bytes, &footer, picture_leaf, &mut budget)?;
        let labels = match footer.label_leaf(&LABEL_COLUMNS) {
            Some(leaf) => column::labels(&bytes, &footer, leaf, &mut budget)?,
            None => None,
        };
        if labels.as_ref().is_some_and(|labels| labels.len() != pictures.len()) {
            return Err(damaged("as many labels as images were expected"));
        }
        if classes.is_empty() && labels.is_some() {
            *classes = footer.class_names(&LABEL_COLUMNS);
        }
        Ok(File { name, pictures, labels })
    }
}

impl Pictures for File {
    fn len(&self) -> usize {
        self.pictures.len()
    }

    fn name(&self, index: usize) -> String {
        format!("{} row {index}", self.name)
    }

    fn label(&self, index: usize) -> Option<u32> {
        self.labels.as_ref()?.get(index).copied()
    }

    fn read(&self, index: usize, exif: Exif) -> Result<Picture, FileError> {
        let bytes = self.pictures.get(index).and_then(|slice| slice.as_ref()).map(ByteSlice::bytes);
        let bytes = bytes.ok_or_else(|| damaged("a row without image bytes"))?;
        if bytes.len() as u64 > MAX_PICTURE_BYTES {
            return Err(FileError::TooLarge { bytes: bytes.len() as u64, limit: MAX_PICTURE_BYTES });
        }
        exif.decode(bytes)
    }
}
