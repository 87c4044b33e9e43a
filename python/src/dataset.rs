//! Images from files.

use crate::arguments::word;
use crate::error::raised;
use crate::images::{array, batch_of, picture_file};
use crate::progress::Progress;
use crate::worker;
use numpy::PyArrayDyn;
use pyo3::prelude::*;
use softdiff::corruption::Shape;
use softdiff::data::{DataError, Source, Split};
use softdiff::image::Picture;
use softdiff::metrics::{ImageSet, ImageSetOptions};
use std::path::PathBuf;

/// Reads images: a folder, zip, tar, CIFAR-10, IDX, npz, Parquet or image file, "embedded:fashion-mnist", or
/// the name of data that was fetched, such as "cifar10".
///
/// Args:
///     source: where they are.
///     split: "train", "test" or "all".
///     size: side to cut and resize to; without it all must be of one size.
///     channels: 1 or 3; by default as they are.
///     limit: only the first so many.
///     progress: whether to show a bar.
///
/// Returns:
///     A uint8 array [n, height, width, channels].
#[pyfunction]
#[pyo3(signature = (source, *, split="all", size=None, channels=None, limit=None, progress=true))]
pub fn read_images<'py>(
    py: Python<'py>,
    source: PathBuf,
    split: &str,
    size: Option<usize>,
    channels: Option<usize>,
    limit: Option<usize>,
    progress: bool,
) -> PyResult<Bound<'py, PyArrayDyn<u8>>> {
    if let (Some(picture), None, None) = (picture_file(&source), size, channels) {
        let Picture { width, height, channels, pixels } = picture?;
        return array(py, pixels, &[1, height, width, channels]);
    }
    let split = word("split", split, &[("all", Split::All), ("train", Split::Train), ("test", Split::Test)])?;
    let progress = Progress::new(py, progress)?;
    let result = worker::run(py, |worker| -> Result<ImageSet, DataError> {
        let size = size.map(|side| (side, side));
        let options = ImageSetOptions { split, size, channels, limit, ..ImageSetOptions::default() };
        ImageSet::load(&Source::open_split(&source, split)?, &options, &|done, total| {
            progress.update(worker, "decoding", "images", (done, total));
            worker.unwind_if_ended();
        })
    });
    progress.close(py)?;
    let images = result?.map_err(raised)?.dataset;
    let shape = Shape::new(images.height(), images.width(), images.channels());
    array(py, images.pixels().to_vec(), &batch_of(images.len(), shape))
}
