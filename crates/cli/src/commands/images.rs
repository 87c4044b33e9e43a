//! Images from any data source, for the verbs that compute with them.

use super::data::{explain, explain_opening};
use crate::diagnostics::Failure;
use softdiff::corruption::Shape;
use softdiff::data::{Exif, LoadOptions, Source};
use softdiff::engine::shared_bytes::SharedBytes;
use softdiff::image::{ImageError, Picture, decode, image_file};
use std::path::Path;

/// Images of one shape, one after the other.
pub struct LoadedImages {
    /// Shape of each.
    pub shape: Shape,
    /// Their samples.
    pub pixels: SharedBytes,
    /// Where they came from, without folders, which say nothing elsewhere.
    pub source: String,
}

/// The first `most` images of a data source.
pub fn load(path: &Path, most: usize) -> Result<LoadedImages, Failure> {
    let source = Source::open(path).map_err(explain_opening)?;
    let options = LoadOptions { limit: Some(most), ..LoadOptions::default() };
    let progress = crate::progress::Progress::new("decoding", "images");
    let set = source.load(&options, &|done, total| progress.update(done, total)).map_err(explain)?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    Ok(LoadedImages {
        shape: Shape::new(set.height(), set.width(), set.channels()),
        pixels: set.shared_pixels().clone(),
        source: format!("{} {name}", source.format()),
    })
}

/// Image number `index` of a data source, or an image file itself.
pub fn one(path: &Path, index: usize) -> Result<Picture, Failure> {
    match image_file(path) {
        Some(bytes) if index == 0 => decode(&bytes).map_err(|error| undecodable(path, error)),
        _ => from_source(path, index),
    }
}

/// How many images a data source has; none where it cannot be opened.
pub fn count(path: &Path) -> usize {
    Source::open(path).map_or(0, |source| source.len())
}

/// The failure of an image that cannot be decoded.
pub fn undecodable(path: &Path, error: ImageError) -> Failure {
    let hint = match &error {
        ImageError::Memory(error) => error.hint.clone(),
        ImageError::Side { limit, .. } => format!("resize it, or cut it into parts of at most {limit} pixels a side"),
        ImageError::Allocation { .. } => "resize it, or cut it into parts".into(),
        _ => "save it again as PNG, or give another image".into(),
    };
    Failure::new(format!("{}: {error}", path.display())).hint(hint)
}

fn from_source(path: &Path, index: usize) -> Result<Picture, Failure> {
    let source = Source::open(path).map_err(explain_opening)?;
    if index >= source.len() {
        let failure = Failure::new(format!("{} has no image {index}", path.display()));
        return Err(failure.hint(format!("give --index 0 to {}", source.len().saturating_sub(1))));
    }
    Ok(source.read(index, Exif::Apply)?)
}
