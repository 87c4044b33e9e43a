//! Images in a zip or tar archive; nothing is unpacked to disk.

use super::folder::pick;
use super::layout::{self, FolderLayout};
use super::pictures::{Exif, Opened, Pictures};
use super::{DataError, FileError, MAX_PICTURE_BYTES, MAX_PICTURES, Split};
use crate::archive::{safe_name, tar, zip};
use crate::image::{self, Picture};
use softdiff_engine::shared_bytes::SharedBytes;
use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

/// What a data zip may contain.
pub const ZIP_RULES: zip::Rules = zip::Rules { max_entries: MAX_PICTURES, deflated: true };

enum ArchiveContent {
    Zip { bytes: SharedBytes, index: zip::Index },
    Tar { bytes: SharedBytes, entries: Vec<(tar::TarKind, Range<usize>)> },
}

struct Packed {
    content: ArchiveContent,
    /// The name and, in a tar, the number of each image.
    pictures: Vec<(String, usize)>,
    labels: Option<Vec<u32>>,
}

/// Lists the images of one part of a zip file.
pub fn open_zip(path: &Path, bytes: SharedBytes, index: zip::Index, split: Split) -> Result<Opened, DataError> {
    let names: Vec<(String, usize)> = index.names().map(String::from).zip(0..).collect();
    open("zip archive of images", path, names, ArchiveContent::Zip { bytes, index }, split)
}

/// Lists the images of one part of a tar file.
pub fn open_tar(
    path: &Path,
    bytes: SharedBytes,
    entries: Vec<tar::TarEntry>,
    split: Split,
) -> Result<Opened, DataError> {
    let names = entries.iter().map(|entry| entry.name.clone()).zip(0..).collect();
    let entries = entries.into_iter().map(|entry| (entry.kind, entry.data)).collect();
    open("tar archive of images", path, names, ArchiveContent::Tar { bytes, entries }, split)
}

fn open(
    format: &'static str,
    path: &Path,
    names: Vec<(String, usize)>,
    content: ArchiveContent,
    split: Split,
) -> Result<Opened, DataError> {
    let files = names.iter().filter(|(name, _)| !name.ends_with('/') && !name.contains("__MACOSX/")).count();
    let mut pictures = names;
    pictures.retain(|(name, _)| image::is_picture_name(name) && !name.contains("__MACOSX/"));
    pictures.sort_unstable();
    let paths: Vec<String> = pictures.iter().map(|(name, _)| name.clone()).collect();
    let FolderLayout { splits, labels, classes } = layout::arrange(&paths);
    let chosen = split.choose(&splits, path)?;
    let ignored = files.saturating_sub(pictures.len());
    let labels = labels.map(|labels| pick(&labels, &chosen));
    let packed = Packed { content, pictures: pick(&pictures, &chosen), labels };
    Ok(Opened { format, pictures: Box::new(packed), classes, ignored, origin: None })
}

impl Packed {
    fn bytes(&self, name: &str, number: usize) -> Result<Cow<'_, [u8]>, FileError> {
        if !safe_name(name) {
            return Err(FileError::UnsafeName);
        }
        match &self.content {
            ArchiveContent::Zip { bytes, index } => Ok(index.read(bytes, name, MAX_PICTURE_BYTES)?),
            ArchiveContent::Tar { bytes, entries } => match entries.get(number) {
                Some((tar::TarKind::File, data)) if data.len() as u64 > MAX_PICTURE_BYTES => {
                    Err(FileError::TooLarge { bytes: data.len() as u64, limit: MAX_PICTURE_BYTES })
                }
                Some((tar::TarKind::File, data)) => Ok(bytes.get(data.clone()).unwrap_or_default().into()),
                Some((tar::TarKind::Link, _)) => Err(FileError::Link),
                _ => Err(FileError::NotAFile),
            },
        }
    }
}

impl Pictures for Packed {
    fn len(&self) -> usize {
        self.pictures.len()
    }

    fn name(&self, index: usize) -> String {
        self.pictures[index].0.clone()
    }

    fn label(&self, index: usize) -> Option<u32> {
        self.labels.as_ref()?.get(index).copied()
    }

    fn read(&self, index: usize, exif: Exif) -> Result<Picture, FileError> {
        let Some((name, number)) = self.pictures.get(index) else { return Err(FileError::NotAFile) };
        exif.decode(&self.bytes(name, *number)?)
    }

    fn release(&self) {
        let (ArchiveContent::Zip { bytes, .. } | ArchiveContent::Tar { bytes, .. }) = &self.content;
        bytes.release();
    }
}
