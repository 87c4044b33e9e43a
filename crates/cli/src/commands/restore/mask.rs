//! The mask of inpainting in a file: which pixels are missing.

use crate::commands::images;
use crate::diagnostics::Failure;
use softdiff::corruption::Shape;
use softdiff::image::{PhotographFile, Picture, image_file, to_unit};
use softdiff::restore::known_pixels;
use std::path::Path;

/// Which pixels a mask leaves known in an image of a shape: the dark and the transparent ones.
pub fn known(file: &Path, shape: Shape) -> Result<Vec<bool>, Failure> {
    let mask = match image_file(file) {
        Some(bytes) => PhotographFile::read(&bytes).map_err(|error| images::undecodable(file, error))?,
        None => PhotographFile::from_picture(images::one(file, 0)?),
    };
    let Picture { width, height, .. } = mask.picture;
    if (height, width) != (shape.height, shape.width) {
        let (name, size) = (file.display(), format!("{}x{}", shape.width, shape.height));
        let failure = Failure::new(format!("{name} has {width}x{height} pixels, the image {size}"));
        return Err(failure.hint(format!("give a mask of {size}")));
    }
    let mut white = mask.picture.with_channels(1).pixels;
    if let Some(alpha) = &mask.alpha {
        let transparent = white.iter_mut().zip(&alpha.pixels).filter(|(_, alpha)| **alpha < 128);
        transparent.for_each(|(white, _)| *white = 0);
    }
    Ok(known_pixels(&to_unit(&white), &file.display().to_string())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff::image::{Metadata, png};

    #[test]
    fn what_is_white_and_opaque_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mask.png");
        let shape = Shape::new(1, 4, 3);
        let write = |pixels: [u8; 4], alpha: Option<&[u8]>| {
            let picture = Picture { width: 4, height: 1, channels: 1, pixels: pixels.to_vec() };
            std::fs::write(&file, png::encode_with(&picture, alpha, &Metadata::default())).unwrap();
        };
        write([255, 255, 0, 0], Some(&[255, 0, 255, 0]));
        assert_eq!(known(&file, shape).unwrap(), [false, true, true, true]);
        write([255, 200, 100, 0], None);
        assert_eq!(known(&file, shape).unwrap(), [false, false, true, true]);
        // Red is dark.
        write([76; 4], Some(&[0, 0, 255, 255]));
        let (problem, hint) = known(&file, shape).unwrap_err().explain();
        assert!(problem.contains("leaves all or nothing"), "{problem}");
        assert!(hint.is_some_and(|hint| hint.contains("red") && hint.contains("transparent")));
    }
}
