//! A photograph and what it is compared with, from their files.

use crate::commands::images;
use crate::diagnostics::Failure;
use softdiff::corruption::Shape;
use softdiff::image::{PhotographFile, image_file};
use softdiff::restore::fitted;
use std::path::Path;

/// An image file with all that is to be kept of it, or an image of a data source.
pub fn photograph(path: &Path, index: Option<usize>) -> Result<PhotographFile, Failure> {
    match image_file(path).filter(|_| index.is_none()) {
        Some(bytes) => PhotographFile::read(&bytes).map_err(|error| images::undecodable(path, error)),
        None => {
            let picture = images::one(path, index.unwrap_or(0))?;
            let count = if index.is_none() { images::count(path) } else { 1 };
            if count > 1 {
                let path = path.display();
                eprintln!("note: {path} has {count} images, of which the first is restored; --index chooses another");
            }
            Ok(PhotographFile::from_picture(picture))
        }
    }
}

/// The undegraded image. Where one of the size `found` is made larger, the rows and columns that are no multiple of the factor are cut off.
pub fn truth(path: &Path, found: Shape, restored: Shape) -> Result<Vec<f64>, Failure> {
    let picture = images::one(path, 0)?;
    let size = (restored.width, restored.height);
    let fits = |side: usize, wanted: usize, small: usize| side >= wanted && side - wanted < wanted / small.max(1);
    let is_larger = (picture.width, picture.height) != size
        && fits(picture.width, size.0, found.width)
        && fits(picture.height, size.1, found.height);
    if !is_larger {
        return Ok(fitted(&picture, restored)?);
    }
    eprintln!("note: {} is cut to {}x{} for the comparison", path.display(), size.0, size.1);
    let cut = picture.crop(0, 0, size.0, size.1).unwrap_or(picture);
    Ok(fitted(&cut, restored)?)
}
