//! Images to a grid, to single files, or to an archive.

use super::ModelError;
use crate::archive::zip::StoredZip;
use crate::corruption::Shape;
use crate::data::{Dataset, write_npz};
use crate::image::{grid, png};
use crate::metrics::Made;
use serde_json::json;
use softdiff_engine::atomic_file;
use std::io::Write;
use std::path::Path;

/// The most images that a grid shows.
const LARGEST_GRID: usize = 4096;

/// Writes images to `out`, whose ending decides the format: a grid (`.png`), an archive (`.npz`, `.zip`), or a folder.
pub fn write_images(out: &Path, shape: Shape, images: &[f64], seeds: &[u64], made: &Made) -> Result<(), ModelError> {
    let bytes = made.quantise.bytes(images);
    let Shape { height, width, channels } = shape;
    match out.extension().and_then(|e| e.to_str()) {
        Some("png") => {
            let shown = &bytes[..bytes.len().min(LARGEST_GRID * shape.len())];
            let columns = grid::square_columns(shown.len() / shape.len());
            let zoom = grid::usual_zoom(width);
            let picture = grid::compose(width, height, channels, shown, columns, zoom);
            save(out, &picture.to_png())
        }
        Some("npz") => {
            let set = Dataset::new(height, width, channels, bytes, None, vec![]);
            let origin = json!({ "made_by": crate::run::build(), "made": made });
            atomic_file::write(out, |to| write_npz(to, &set, &origin)).map_err(|error| unwritable(out, error))
        }
        Some("zip") => {
            let pictures = bytes.chunks_exact(shape.len()).zip(seeds);
            let write = |to: &mut _| {
                let mut zip = StoredZip::new(to);
                for (picture, seed) in pictures {
                    zip.entry(&format!("{seed:08}.png"), &[&png::encode(width, height, channels, picture)])?;
                }
                zip.finish()
            };
            atomic_file::write(out, write).map_err(|error| unwritable(out, error))
        }
        Some(other) if !out.is_dir() => Err(ModelError::ImageFormat { file: out.into(), ending: other.into() }),
        _ => {
            std::fs::create_dir_all(out).map_err(|error| unwritable(out, error))?;
            for (picture, seed) in bytes.chunks_exact(shape.len()).zip(seeds) {
                save(&out.join(format!("{seed:08}.png")), &png::encode(width, height, channels, picture))?;
            }
            Ok(())
        }
    }
}

fn save(path: &Path, bytes: &[u8]) -> Result<(), ModelError> {
    atomic_file::write(path, |to| to.write_all(bytes)).map_err(|error| unwritable(path, error))
}

fn unwritable(file: &Path, error: std::io::Error) -> ModelError {
    ModelError::Unwritable { file: file.into(), problem: error.to_string() }
}
