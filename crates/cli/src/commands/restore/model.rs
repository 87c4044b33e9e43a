//! Which argument is the model, and which model restores photographs where none is named.

use crate::diagnostics::Failure;
use softdiff::data::named;
use softdiff::image::is_picture_name;
use softdiff::model::Model;
use softdiff::restore::photo_model;
use std::path::{Path, PathBuf};

/// The model and the images among the arguments.
pub fn split(arguments: &[PathBuf]) -> Result<(PathBuf, &[PathBuf]), Failure> {
    let (first, rest) = arguments.split_first().expect("one argument is required");
    if Model::is_at(first) && rest.is_empty() {
        let failure = Failure::new(format!("{} is a model, and no image is given", first.display()));
        return Err(failure.hint("give images after it"));
    }
    if Model::is_at(first) || !rest.is_empty() && !has_images(first) {
        return Ok((first.clone(), rest));
    }
    Ok((photo_model()?, arguments))
}

/// Whether a place by its name has images, there or not.
fn has_images(place: &Path) -> bool {
    let name = place.to_string_lossy();
    is_picture_name(&name) || name.starts_with("embedded:") || named::is_name(place) || !pictures_in(place).is_empty()
}

/// How many folders are in a folder, hidden ones apart.
pub fn folders_in(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let is_shown = |entry: &std::fs::DirEntry| !entry.file_name().to_string_lossy().starts_with('.');
    entries.flatten().filter(|entry| is_shown(entry) && entry.path().is_dir()).count()
}

/// The images of a folder, in the order of their names.
pub fn pictures_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut all: Vec<PathBuf> =
        paths.filter(|path| is_picture_name(&path.to_string_lossy()) && path.is_file()).collect();
    all.sort();
    all
}
