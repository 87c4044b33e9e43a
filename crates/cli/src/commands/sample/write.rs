//! Images to a grid, to single files, or to an archive.

use crate::atomic_file::{self, save, unwritable};
use crate::diagnostics::{Failure, Outcome};
use serde_json::json;
use softdiff::archive::zip::ZipWriter;
use softdiff::corruption::Shape;
use softdiff::data::{Dataset, write_npz};
use softdiff::image::{grid, png};
use softdiff::metrics::Made;
use std::path::Path;

/// The most pictures that a grid shows.
const LARGEST_GRID: usize = 4096;

/// Writes images to `out`, whose ending decides the format.
pub fn images(out: &Path, shape: Shape, images: &[f64], seeds: &[u64], made: &Made) -> Outcome {
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
            let origin = json!({ "made_by": softdiff::run::build(), "made": made });
            atomic_file::write(out, |to| write_npz(to, &set, &origin)).map_err(|error| unwritable(out, &error))
        }
        Some("zip") => {
            let pictures = bytes.chunks_exact(shape.len()).zip(seeds);
            let write = |to: &mut _| {
                let mut zip = ZipWriter::new(to);
                for (picture, seed) in pictures {
                    zip.entry(&format!("{seed:08}.png"), &[&png::encode(width, height, channels, picture)])?;
                }
                zip.finish()
            };
            atomic_file::write(out, write).map_err(|error| unwritable(out, &error))
        }
        Some(other) if !out.is_dir() => {
            let failure = Failure::new(format!("{}: no format is called .{other}", out.display()));
            Err(failure.hint("give a .png, .npz or .zip, or a folder"))
        }
        _ => {
            std::fs::create_dir_all(out).map_err(|error| unwritable(out, &error))?;
            for (picture, seed) in bytes.chunks_exact(shape.len()).zip(seeds) {
                save(&out.join(format!("{seed:08}.png")), &png::encode(width, height, channels, picture))?;
            }
            Ok(())
        }
    }
}
