//! Why a data set, or one image of it, was refused.

use super::named::{self, NamedData};
use super::{BadLimit, Skipped};
use crate::archive::ArchiveError;
use crate::bytes::BytesError;
use crate::image::ImageError;
use softdiff_engine::Hint;
use softdiff_engine::memory::NotEnoughMemory;
use softdiff_engine::suggest;
use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why one file, or one entry of an archive, cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The fields are named as the messages use them.
pub enum FileError {
    /// The operating system could not read it.
    #[error("cannot read it: {0}")]
    Io(#[from] std::io::Error),
    /// There is no room for it.
    #[error(transparent)]
    Memory(#[from] NotEnoughMemory),
    /// It ends too soon.
    #[error(transparent)]
    Bytes(#[from] BytesError),
    /// The archive, or the entry, is not as it should be.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The image is not as it should be.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Longer than the reader accepts.
    #[error("it has {bytes} bytes, more than the limit of {limit}")]
    TooLarge { bytes: u64, limit: u64 },
    /// A pipe, a socket, a device.
    #[error("not an ordinary file")]
    NotAFile,
    /// An archive's entry whose name points outside the archive.
    #[error("its name points outside the archive")]
    UnsafeName,
    /// An archive's entry that is a link.
    #[error("a link in an archive, which is never followed")]
    Link,
    /// The content makes no sense.
    #[error("{format}: {reason}")]
    Damaged { format: &'static str, reason: String },
    /// The content makes sense but is not read.
    #[error("{format}: {what}")]
    Unsupported { format: &'static str, what: String },
    /// A float that is no brightness.
    #[error("value {index} is {value}, expected floats from 0 to 1")]
    NotABrightness { index: usize, value: f64 },
    /// The crop does not fit.
    #[error("the image is {width} x {height}, and the crop {crop} does not fit it")]
    Crop { width: usize, height: usize, crop: String },
}

impl FileError {
    pub(super) fn damaged(format: &'static str, reason: impl Into<String>) -> FileError {
        FileError::Damaged { format, reason: reason.into() }
    }

    pub(super) fn unsupported(format: &'static str, what: impl Into<String>) -> FileError {
        FileError::Unsupported { format, what: what.into() }
    }
}

/// Why a data set cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The fields are named as the messages use them.
pub enum DataError {
    /// The operating system could not read the place.
    #[error("cannot read {}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// Data with a name that is not on this machine.
    #[error("{} is not here{}", path.display(), looked_in())]
    NotFetched { path: PathBuf, data: &'static NamedData },
    /// A file that is no data set.
    #[error("{} is not a data set that can be read: {found}", path.display())]
    Unknown { path: PathBuf, found: String },
    /// An embedded set that does not exist.
    #[error("there is no embedded data set {name}")]
    UnknownEmbedded { name: String },
    /// No images.
    #[error("there are no images in {}{}", path.display(), passed_over(*ignored))]
    Empty { path: PathBuf, ignored: usize },
    /// The set has no such part.
    #[error("{} has no {split} part", path.display())]
    NoSplit { path: PathBuf, split: &'static str },
    /// One file is bad. The reason is part of the message, so it is no `source`.
    #[error("{file}: {reason}")]
    File { file: String, reason: Box<FileError> },
    /// Too many files are bad.
    #[error("{} of {total} images are bad, more than {limit}:{}", skipped.len(), listed(skipped))]
    TooManySkipped { total: usize, limit: BadLimit, skipped: Vec<Skipped> },
    /// More crops than the photographs may give.
    #[error("{count} crops are more than {photographs} photographs give with at most {cap} of each")]
    TooManyCrops { count: usize, photographs: usize, cap: usize },
    /// Not even one crop of each photograph.
    #[error("{count} crops are fewer than the {photographs} photographs")]
    TooFewCrops { count: usize, photographs: usize },
    /// Nothing would be left to train on.
    #[error("{} has one photograph that can be used: none can be held out", path.display())]
    OnePhotograph { path: PathBuf },
    /// Images of different sizes.
    #[error("the images differ in size: {first} is {} x {}, {other} is {} x {}", first_size.0, first_size.1, other_size.0, other_size.1)]
    Sizes { first: String, first_size: (usize, usize), other: String, other_size: (usize, usize) },
    /// Grey images and coloured ones.
    #[error("{grey} is grey, {colour} is coloured")]
    MixedColours { grey: String, colour: String },
    /// There is no room for it.
    #[error(transparent)]
    Memory(#[from] NotEnoughMemory),
    /// More memory than a data set may have.
    #[error("the images would need {bytes} bytes of memory, more than the limit of {limit}")]
    TooLarge { bytes: u64, limit: u64 },
}

impl DataError {
    pub(super) fn file(file: impl Into<String>, reason: impl Into<FileError>) -> DataError {
        DataError::File { file: file.into(), reason: Box::new(reason.into()) }
    }
}

impl Hint for DataError {
    /// The remedy where it is the same in every command: data to fetch, and memory that does not suffice.
    fn hint(&self) -> Option<Cow<'_, str>> {
        match self {
            DataError::NotFetched { data, .. } => Some(data.command().into()),
            DataError::Io { path, source } if source.kind() == ErrorKind::NotFound => near(path).map(Cow::from),
            DataError::Memory(error) => error.hint(),
            DataError::File { reason, .. } => match reason.as_ref() {
                FileError::Memory(error)
                | FileError::Archive(ArchiveError::Memory(error))
                | FileError::Image(ImageError::Memory(error)) => error.hint(),
                _ => None,
            },
            _ => None,
        }
    }
}

fn looked_in() -> String {
    named::folder().map_or(String::new(), |folder| format!(", nor in the data folder {}", folder.display()))
}

/// The name that may have been meant by a path where nothing is.
fn near(path: &Path) -> Option<String> {
    let images = named::NAMED.iter().filter(|data| data.is_images()).map(|data| data.name);
    let name = suggest::nearest(path.to_str()?, images)?;
    Some(format!("did you mean {name}? softdiff data fetch list says which data has a name"))
}

fn passed_over(count: usize) -> String {
    if count == 0 { String::new() } else { format!(" ({count} other files were passed over)") }
}

/// The first few bad files, one a line.
fn listed(skipped: &[Skipped]) -> String {
    const SHOWN: usize = 10;
    let mut list: String = skipped.iter().take(SHOWN).map(|skipped| format!("\n  {skipped}")).collect();
    if skipped.len() > SHOWN {
        list.push_str(&format!("\n  and {} more", skipped.len() - SHOWN));
    }
    list
}
