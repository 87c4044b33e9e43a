//! How good images are.

use crate::arguments;
use crate::error::{raised, with_hint};
use crate::images::Images;
use crate::progress::Progress;
use crate::worker;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use softdiff::inception::Inception;
use softdiff::metrics::{Evaluator, ImageSet, Metric, MetricError, Reference};
use std::path::PathBuf;

/// The Fréchet Inception distance of images to a reference.
///
/// Args:
///     images: an array of them, or a folder, an archive or a file.
///     reference: the same, or a .npz file with the statistics of a data set.
///     network: the file of the Inception network; by default the one that the environment variable SOFTDIFF_INCEPTION
///         names (docs/evaluation.md says where to get it).
///     device: as of `load`.
///     progress: whether to show a bar.
#[pyfunction]
#[pyo3(signature = (images, reference, *, network=None, device="auto", progress=true))]
pub fn fid(
    py: Python<'_>,
    images: &Bound<'_, PyAny>,
    reference: &Bound<'_, PyAny>,
    network: Option<PathBuf>,
    device: &str,
    progress: bool,
) -> PyResult<f64> {
    let results = measure(py, images, reference, &[Metric::Fid], network, device, progress)?;
    Ok(results.into_iter().find(|(name, _)| name == "fid").map_or(f64::NAN, |(_, value)| value))
}

/// Measures images against a reference.
///
/// Args:
///     images, reference, network, device, progress: as of `fid`.
///     metrics: names: "fid", "fid-infinity", "kid", "prdc", "feature-memorisation", "memorisation", "sliced-wasserstein" or
///         "pairs"; the last three need no network.
///
/// Returns:
///     A dict of the numbers by name.
#[pyfunction]
#[pyo3(signature = (images, reference, metrics, *, network=None, device="auto", progress=true))]
#[allow(clippy::too_many_arguments)] // As Python's users call it, by name.
pub fn evaluate<'py>(
    py: Python<'py>,
    images: &Bound<'py, PyAny>,
    reference: &Bound<'py, PyAny>,
    metrics: Vec<String>,
    network: Option<PathBuf>,
    device: &str,
    progress: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let named = |name: &String| {
        name.parse().map_err(|hint: String| with_hint(&format!("there is no metric {name:?}"), Some(&hint)))
    };
    let metrics: Vec<Metric> = metrics.iter().map(named).collect::<PyResult<_>>()?;
    let results = PyDict::new(py);
    for (name, value) in measure(py, images, reference, &metrics, network, device, progress)? {
        results.set_item(name, value)?;
    }
    Ok(results)
}

fn measure(
    py: Python<'_>,
    images: &Bound<'_, PyAny>,
    reference: &Bound<'_, PyAny>,
    metrics: &[Metric],
    network: Option<PathBuf>,
    device: &str,
    progress: bool,
) -> PyResult<Vec<(String, f64)>> {
    let images = ImageSet::new(Images::dataset_of(images, "images")?, "images in memory");
    let reference = match reference.extract::<PathBuf>() {
        Ok(path) => Reference::open(path).map_err(raised)?,
        Err(_) => ImageSet::new(Images::of(reference, "reference")?.dataset("reference")?, "images in memory").into(),
    };
    let device = arguments::device(device)?;
    let progress = Progress::new(py, progress)?;
    let result = worker::run(py, |worker| -> Result<_, MetricError> {
        let update = |task, unit, done, total| {
            progress.update(worker, task, unit, (done, total));
            worker.unwind_if_ended();
        };
        let mut evaluator = Evaluator::new(&device).with_progress(&update);
        if metrics.iter().any(|metric| metric.needs_network()) {
            let file = Inception::file(network).ok_or(MetricError::NoNetwork)?;
            evaluator = evaluator.with_network(&Inception::read(&file)?);
        }
        evaluator.evaluate(&images, &reference, metrics)
    });
    progress.close(py)?;
    let evaluation = result?.map_err(raised)?;
    Ok(evaluation.results.iter().map(|(name, measured)| (name.clone(), measured.value)).collect())
}
