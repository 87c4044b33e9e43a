//! The levels of a corruption, chosen on images.

use crate::arguments::word;
use crate::corruption::{CorruptionKind, kind_of};
use crate::error::raised;
use crate::images::{Images, array};
use crate::progress::Progress;
use crate::worker;
use numpy::PyArrayDyn;
use pyo3::prelude::*;
use softdiff::corruption::Shape;
use softdiff::engine::atomic_file;
use softdiff::schedule::{self, Request, TransportMetric, plan, usual_candidates};
use std::io::Write;
use std::path::PathBuf;

/// The metrics by name, with the numbers that the command line has by default.
const METRICS: [(&str, TransportMetric); 7] = [
    ("paired", TransportMetric::Paired),
    ("exact", TransportMetric::Exact),
    ("sinkhorn", TransportMetric::Sinkhorn { entropy: 20.0 }),
    ("divergence", TransportMetric::SinkhornDivergence { entropy: 20.0 }),
    ("sliced", TransportMetric::Sliced { directions: 256, seed: 0 }),
    ("bures", TransportMetric::Bures),
    ("mmd", TransportMetric::Mmd { bandwidth: 15.0 }),
];

/// Levels of a corruption at equal distances of time, from clean to fully corrupted.
#[pyclass(frozen, module = "softdiff")]
pub struct Schedule(pub schedule::Schedule);

#[pymethods]
impl Schedule {
    /// Reads a schedule.json.
    #[staticmethod]
    fn read(file: PathBuf) -> PyResult<Schedule> {
        schedule::Schedule::read(&file).map(Schedule).map_err(raised)
    }

    /// Writes a schedule.json, which `softdiff corrupt --schedule` and recipes take.
    fn save(&self, file: PathBuf) -> PyResult<()> {
        let text = self.0.to_json();
        atomic_file::write(&file, |to| to.write_all(text.as_bytes())).map_err(|error| {
            let problem = format!("cannot write {}: {error}", file.display());
            crate::error::with_hint(&problem, Some("check the folder and its permissions"))
        })
    }

    /// The levels chosen.
    #[getter]
    fn knots<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        array(py, self.0.knots.clone(), &[self.0.knots.len()])
    }

    /// The distance from each knot to the next.
    #[getter]
    fn hops<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        array(py, self.0.hops.clone(), &[self.0.hops.len()])
    }

    /// The levels to choose from.
    #[getter]
    fn candidates<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        array(py, self.0.candidates.clone(), &[self.0.candidates.len()])
    }

    /// The sum of the hops.
    #[getter]
    fn path_cost(&self) -> f64 {
        self.0.path_cost
    }

    /// The corruption with its parameters.
    #[getter]
    fn corruption(&self) -> &str {
        &self.0.corruption
    }

    /// The text of a schedule.json.
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    fn __repr__(&self) -> String {
        let (first, last) = (self.0.knots.first(), self.0.knots.last());
        let ends = format!("{:.4} to {:.4}", first.unwrap_or(&0.0), last.unwrap_or(&0.0));
        format!("<softdiff.Schedule of {} levels, {ends}, of {}>", self.0.knots.len(), self.0.corruption)
    }
}

/// Chooses the levels of a corruption from images: the shortest path through candidate levels, in Wasserstein distance.
///
/// Args:
///     images: an array of them, or a folder, an archive or a file.
///     corruption: a name such as "blur", or a corruption such as softdiff.Blur(18).
///     knots: levels to choose.
///     candidates: levels to choose from.
///     measured: images to measure, drawn at random; all where there are fewer.
///     metric: the distance: paired, exact, sinkhorn, divergence, sliced, bures or mmd.
///     seed: of the choice of images.
///     progress: whether to show a bar.
#[pyfunction(name = "schedule")]
#[pyo3(signature = (images, corruption=None, *, knots=32, candidates=256, measured=1024, metric="paired", seed=0, progress=true))]
#[allow(clippy::too_many_arguments)] // As Python's users call it, by name.
pub fn make(
    py: Python<'_>,
    images: &Bound<'_, PyAny>,
    corruption: Option<&Bound<'_, PyAny>>,
    knots: usize,
    candidates: usize,
    measured: usize,
    metric: &str,
    seed: u64,
    progress: bool,
) -> PyResult<Schedule> {
    let images = Images::dataset_of(images, "images")?;
    let shape = Shape::new(images.height(), images.width(), images.channels());
    let corruption = corruption.map_or_else(|| Ok(CorruptionKind::default()), kind_of)?.build(py, shape)?;
    let metric = word("metric", metric, &METRICS)?;
    let progress = Progress::new(py, progress)?;
    let result = worker::run(py, |worker| {
        let request = Request {
            candidates: usual_candidates(&*corruption, candidates)?,
            knots,
            metric,
            images: measured.min(images.len()),
            seed,
            ..Request::paper(&*corruption, "an array", images.len())?
        };
        let update = |done, total| {
            progress.update(worker, "measuring", "distances", (done, total));
            worker.unwind_if_ended();
        };
        plan(&*corruption, images.pixels(), &request, &update)
    });
    progress.close(py)?;
    result?.map(Schedule).map_err(raised)
}
