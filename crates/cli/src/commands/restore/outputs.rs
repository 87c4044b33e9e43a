//! The files that restored photographs are written to, known before anything is computed.

use super::model::{folders_in, pictures_in};
use crate::diagnostics::{Failure, Outcome};
use crate::output::counted;
use softdiff::image::is_picture_name;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A photograph and where its restoration goes.
pub struct PhotographFiles {
    /// The image, or a data source.
    pub image: PathBuf,
    /// Where the restored image goes.
    pub restored: PathBuf,
}

impl PhotographFiles {
    /// All photographs that were named, those of folders too unless one is chosen by its index.
    pub fn all(arguments: &[PathBuf], index: Option<usize>, out: Option<&Path>) -> Result<Vec<Self>, Failure> {
        let mut images = Vec::new();
        for argument in arguments {
            match pictures_in(argument) {
                pictures if !pictures.is_empty() && index.is_none() => {
                    let folders = folders_in(argument);
                    if folders > 0 {
                        let folders = counted(folders, "folder");
                        eprintln!("note: {}: {folders} within passed over; name them too", argument.display());
                    }
                    images.extend(pictures);
                }
                _ => images.push(argument.clone()),
            }
        }
        let file = out.filter(|out| out.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("png")));
        if let Some(folder) = out.filter(|out| is_picture_name(&out.to_string_lossy()) && out.is_dir()) {
            let failure = Failure::new(format!("{} is a folder with the name of a file", folder.display()));
            return Err(failure.hint("give another --out"));
        }
        if let Some(file) = file.filter(|_| images.len() > 1) {
            let failure =
                Failure::new(format!("{} is one file, and there are {} images", file.display(), images.len()));
            return Err(failure.hint("give --out a folder"));
        }
        let is_other_file = |out: &&Path| is_picture_name(&out.to_string_lossy()) || out.exists() && !out.is_dir();
        if let Some(out) = out.filter(|_| file.is_none()).filter(is_other_file) {
            let failure = Failure::new(format!("{} is a file, and neither a PNG nor a folder", out.display()));
            return Err(failure.hint("give --out a name that ends in .png, or a folder"));
        }
        let mut alike: HashMap<Option<&OsStr>, HashSet<Option<&OsStr>>> = HashMap::new();
        for image in &images {
            alike.entry(image.file_stem()).or_default().insert(image.file_name());
        }
        let name = |image: &Path| {
            // Images whose names differ by the ending alone keep it.
            let whole = alike.get(&image.file_stem()).is_some_and(|names| names.len() > 1);
            let stem = if whole { image.file_name() } else { image.file_stem() };
            let stem = stem.unwrap_or(image.as_os_str()).to_string_lossy();
            let stem = stem.rsplit(':').next().unwrap_or_default();
            format!("{stem}{}-restored.png", index.map_or(String::new(), |index| format!("-{index}")))
        };
        let restored = |image: &Path| match (file, out) {
            (Some(file), _) => file.to_owned(),
            (None, Some(folder)) => folder.join(name(image)),
            (None, None) => name(image).into(),
        };
        let restored: Vec<PathBuf> = images.iter().map(|image| restored(image)).collect();
        Ok(images.into_iter().zip(restored).map(|(image, restored)| PhotographFiles { image, restored }).collect())
    }

    /// A file that goes with the restored image.
    pub fn with(&self, what: &str) -> PathBuf {
        let stem = self.restored.file_stem().unwrap_or_default().to_string_lossy();
        self.restored.with_file_name(format!("{stem}-{what}.png"))
    }

    /// What it looks like while it is computed.
    pub fn preview(&self) -> PathBuf {
        self.with("preview")
    }

    /// Refuses previews that would replace an image to be restored. Other files of their names are those of a run that was killed.
    pub fn check_previews(all: &[Self]) -> Outcome {
        let images: HashSet<&Path> = all.iter().map(|files| files.image.as_path()).collect();
        match all.iter().map(Self::preview).find(|preview| images.contains(preview.as_path())) {
            Some(preview) => {
                let failure = Failure::new(format!("a preview would be written to {}", preview.display()));
                Err(failure.hint("choose another --out"))
            }
            None => Ok(()),
        }
    }

    /// Refuses files that are there already, unless they are to be replaced, and those that would replace each other.
    pub fn check(files: &[PathBuf], force: bool) -> Outcome {
        let mut seen = HashSet::new();
        for file in files {
            if !seen.insert(file) {
                let failure = Failure::new(format!("two images would be written to {}", file.display()));
                return Err(failure.hint("rename one, or restore them into folders of their own with --out"));
            }
            if !force && file.symlink_metadata().is_ok() {
                let failure = Failure::new(format!("{} exists already", file.display()));
                return Err(failure.hint("choose another --out, or add --force to replace it"));
            }
        }
        Ok(())
    }
}
