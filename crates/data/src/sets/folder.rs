//! A folder of images, any depth, in the order of their paths.

use super::layout::{self, FolderLayout};
use super::pictures::{Exif, Opened, Pictures};
use super::source::read_within;
use super::{DataError, FileError, MAX_PICTURE_BYTES, MAX_PICTURES, Split};
use crate::image::{self, Picture};
use std::path::{Path, PathBuf};

/// Deeper trees are loops of mounts, not data sets.
const MAX_DEPTH: usize = 32;

struct Folder {
    root: PathBuf,
    /// Relative, with `/`.
    paths: Vec<String>,
    labels: Option<Vec<u32>>,
}

/// Lists the images of one part; reads none of them yet.
pub fn open(root: &Path, split: Split) -> Result<Opened, DataError> {
    let mut found = FolderListing::default();
    found.walk(root, "", 0)?;
    found.pictures.sort_unstable();
    let FolderLayout { splits, labels, classes } = layout::arrange(&found.pictures);
    let chosen = split.choose(&splits, root)?;
    let labels = labels.map(|labels| pick(&labels, &chosen));
    let folder = Folder { root: root.into(), paths: pick(&found.pictures, &chosen), labels };
    Ok(Opened { format: "folder of images", pictures: Box::new(folder), classes, ignored: found.ignored, origin: None })
}

/// The items at these places.
pub fn pick<T: Clone>(items: &[T], places: &[usize]) -> Vec<T> {
    places.iter().filter_map(|&place| items.get(place)).cloned().collect()
}

#[derive(Default)]
struct FolderListing {
    pictures: Vec<String>,
    ignored: usize,
}

impl FolderListing {
    /// Symbolic links to files are followed, those to folders are not: they can form loops.
    fn walk(&mut self, folder: &Path, prefix: &str, depth: usize) -> Result<(), DataError> {
        let unreadable = |source| DataError::Io { path: folder.into(), source };
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            let shown = name.to_string_lossy();
            if shown.starts_with('.') || shown == "__MACOSX" {
                continue;
            }
            let path = format!("{prefix}{shown}");
            let is_folder = entry.file_type().map_err(unreadable)?.is_dir();
            if is_folder && depth < MAX_DEPTH {
                self.walk(&entry.path(), &format!("{path}/"), depth + 1)?;
            } else if !is_folder && image::is_picture_name(&path) && name.to_str().is_some() {
                self.pictures.push(path);
            } else {
                self.ignored += 1;
            }
            if self.pictures.len() as u64 > MAX_PICTURES {
                let found = format!("it holds more than {MAX_PICTURES} images");
                return Err(DataError::Unknown { path: folder.into(), found });
            }
        }
        Ok(())
    }
}

impl Pictures for Folder {
    fn len(&self) -> usize {
        self.paths.len()
    }

    fn name(&self, index: usize) -> String {
        self.paths[index].clone()
    }

    fn label(&self, index: usize) -> Option<u32> {
        self.labels.as_ref()?.get(index).copied()
    }

    fn read(&self, index: usize, exif: Exif) -> Result<Picture, FileError> {
        let path = self.root.join(self.name(index));
        exif.decode(&read_within(&path, MAX_PICTURE_BYTES)?)
    }
}
