//! Images to a grid, to single files, or to an archive, as they are made.

use super::ModelError;
use crate::archive::zip::StoredZip;
use crate::corruption::Shape;
use crate::data::{MAX_PICTURES, NpzWriter};
use crate::image::{grid, png};
use crate::metrics::Made;
use crate::sampler::SamplerError;
use serde_json::json;
use softdiff_engine::{atomic_file, memory};
use std::io::{self, Write};
use std::path::Path;

/// The most images that a grid shows.
const LARGEST_GRID: u64 = 4096;

/// Writes the bytes of some images, whose seeds these are.
type WritePart<'a> = dyn FnMut(&[u8], &[u64]) -> io::Result<()> + 'a;

/// Who makes the images of [`write_images`].
pub trait ImageMaker {
    /// One image per seed, in the range of the data but not cut off to it.
    fn images(&mut self, seeds: &[u64]) -> Result<Vec<f64>, SamplerError>;
    /// How they are made; the evaluations are those so far.
    fn made(&self) -> Made;
}

/// Writes the images of `seeds` to `out`, whose ending decides the format: a grid (`.png`), an archive (`.npz`, `.zip`), or a
/// folder. They are made and written `batch` at a time, so that their number is no matter of memory; only a grid is made whole.
pub fn write_images(
    out: &Path,
    shape: Shape,
    seeds: &[u64],
    batch: usize,
    maker: &mut dyn ImageMaker,
) -> Result<(), ModelError> {
    let Shape { height, width, channels } = shape;
    let png = |pixels: &[u8]| png::encode(width, height, channels, pixels);
    let mut each = |write: &mut WritePart| -> Result<Made, ModelError> {
        let quantise = maker.made().quantise;
        for part in seeds.chunks(batch.max(1)) {
            let images = quantise.bytes(&maker.images(part)?);
            write(&images, part).map_err(|error| unwritable(out, error))?;
        }
        Ok(maker.made())
    };
    let single = |pixels: &[u8], seeds: &[u64], save: &mut dyn FnMut(String, Vec<u8>) -> io::Result<()>| {
        let mut pictures = pixels.chunks_exact(shape.len()).zip(seeds);
        pictures.try_for_each(|(picture, seed)| save(format!("{seed:08}.png"), png(picture)))
    };
    match out.extension().and_then(|e| e.to_str()) {
        Some("png") => {
            check_count("a grid", seeds, LARGEST_GRID)?;
            let (count, zoom) = (seeds.len(), grid::usual_zoom(width));
            // The images, and the sheet, its rows for the PNG and the PNG itself.
            let bytes = (count * shape.len()) as u64 * (1 + 3 * (zoom * zoom) as u64);
            let hint = "give --out a folder or an .npz, or fewer --seeds";
            memory::require(bytes, format!("a grid of {count} images of {shape}"), hint)
                .map_err(softdiff_engine::Error::HostMemory)?;
            let mut shown = Vec::with_capacity(count * shape.len());
            each(&mut |pixels, _| {
                shown.extend_from_slice(pixels);
                Ok(())
            })?;
            let picture = grid::compose(width, height, channels, &shown, grid::square_columns(count), zoom);
            save(out, &picture.to_png()).map_err(|error| unwritable(out, error))
        }
        Some("npz") => complete(out, |to| {
            let failed = |error| unwritable(out, error);
            let mut npz = NpzWriter::new(to, [seeds.len(), height, width, channels], None).map_err(failed)?;
            let made = each(&mut |pixels, _| npz.add(pixels))?;
            let origin = json!({ "made_by": crate::run::build(), "made": made });
            npz.finish(&[], &origin).map_err(failed)
        }),
        Some("zip") => {
            check_count("a zip archive", seeds, MAX_PICTURES)?;
            complete(out, |to| {
                let mut zip = StoredZip::new(to);
                each(&mut |pixels, seeds| single(pixels, seeds, &mut |name, file| zip.entry(&name, &[&file])))?;
                zip.finish().map_err(|error| unwritable(out, error))
            })
        }
        Some(other) if !out.is_dir() => Err(ModelError::ImageFormat { file: out.into(), ending: other.into() }),
        _ => {
            std::fs::create_dir_all(out).map_err(|error| unwritable(out, error))?;
            each(&mut |pixels, seeds| single(pixels, seeds, &mut |name, file| save(&out.join(name), &file)))?;
            Ok(())
        }
    }
}

fn check_count(what: &'static str, seeds: &[u64], most: u64) -> Result<(), ModelError> {
    match seeds.len() as u64 {
        images if images > most => Err(ModelError::TooManyImages { what, images, most }),
        _ => Ok(()),
    }
}

/// A file that is complete or not there, whatever fails.
fn complete(
    out: &Path,
    write: impl FnOnce(&mut atomic_file::Output) -> Result<(), ModelError>,
) -> Result<(), ModelError> {
    let mut failed = None;
    let written = atomic_file::write(out, |to| {
        write(to).map_err(|error| {
            failed = Some(error);
            io::Error::other("the images could not be made")
        })
    });
    written.map_err(|error| failed.unwrap_or_else(|| unwritable(out, error)))
}

fn save(path: &Path, bytes: &[u8]) -> io::Result<()> {
    atomic_file::write(path, |to| to.write_all(bytes))
}

fn unwritable(file: &Path, error: io::Error) -> ModelError {
    ModelError::Unwritable { file: file.into(), problem: error.to_string() }
}
