//! Which argument is the model, and which model restores photographs where none is named.

use crate::diagnostics::Failure;
use softdiff::image::is_picture_name;
use softdiff::model::Model;
use std::path::{Path, PathBuf};

/// Where the model for photographs is, if elsewhere.
const VARIABLE: &str = "SOFTDIFF_PHOTO_MODEL";
/// Where it is in the current folder, or beside the program.
const FOLDER: &str = "models/photos";

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
    Ok((for_photographs()?, arguments))
}

/// Whether a place by its name has images, there or not.
fn has_images(place: &Path) -> bool {
    let name = place.to_string_lossy();
    is_picture_name(&name) || name.starts_with("embedded:") || !pictures_in(place).is_empty()
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

fn for_photographs() -> Result<PathBuf, Failure> {
    photo_model().ok_or_else(|| {
        let failure =
            Failure::new(format!("there is no model for photographs: no {FOLDER} here or beside the program"));
        failure.hint(format!("name a model first (softdiff restore MODEL IMAGE), or set {VARIABLE} to one"))
    })
}

/// The model for photographs, if there is one: what the variable names, none if it is empty, else where it is looked for.
pub fn photo_model() -> Option<PathBuf> {
    if let Some(place) = std::env::var_os(VARIABLE) {
        return Some(place.into()).filter(|place: &PathBuf| !place.as_os_str().is_empty());
    }
    let beside = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.join(FOLDER)));
    // Where the program was built, for one that was installed from there.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map(|root| root.join(FOLDER));
    let places = [Some(PathBuf::from(FOLDER)), beside, source];
    places.into_iter().flatten().find(|place| Model::is_at(place))
}
