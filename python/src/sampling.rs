//! Sampling with a denoiser of Python.

use crate::arguments::Seeds;
use crate::error::raised;
use crate::images::{Images, array, batch_of, noisy_values};
use crate::model::{as_asked, sampling_watch, wants_floats};
use crate::path::Path;
use crate::progress::Progress;
use crate::worker::{self, Worker};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use softdiff::corruption::Shape;
use softdiff::model::{Generation, batch_size};
use softdiff::prior::Prior;
use softdiff::recipe::PriorSection;
use softdiff::sampler::{Denoiser, Options, SamplerError, Sampling, by_name};
use std::sync::Arc;

/// A function of Python as a denoiser.
struct PythonDenoiser<'a> {
    function: Arc<Py<PyAny>>,
    shape: Shape,
    worker: &'a Worker,
}

impl Denoiser for PythonDenoiser<'_> {
    fn x0_hat(&mut self, xt: &[f64], t: f64) -> Result<Vec<f64>, SamplerError> {
        let (function, shape, xt) = (self.function.clone(), self.shape, xt.to_vec());
        let answer = self.worker.call(move |py| {
            let dimensions = batch_of(xt.len() / shape.len(), shape);
            let answer = function.call1(py, (array(py, xt, &dimensions)?, t))?;
            let (values, found) = noisy_values(answer.bind(py), "the denoiser's answer", shape)?;
            match found == dimensions {
                true => Ok(values),
                false => {
                    let message = format!("the denoiser made {found:?} of {dimensions:?}; give as many images");
                    Err(PyValueError::new_err(message))
                }
            }
        });
        // The exception itself is raised.
        answer.map_err(|_| SamplerError::Stopped)
    }
}

/// Makes images with a denoiser of one's own, one per seed.
///
/// Args:
///     denoiser: a function f(xt, t) -> x0_hat from floats [n, height, width, channels] and a time to the predicted clean
///         images, of the same shape; or a model.
///     path: the softdiff.Path to go back on.
///     seeds: whole numbers, such as range(16).
///     steps: of the sampler.
///     sampler: its name: momentum, naive, flow-momentum, ddim-form, churn, heun, multistep and others.
///     prior: images to fit the end of the path to; by default it is noise alone, which is right where nothing of an image is
///         left (masking, VE, VP).
///     start: x_1 itself, one image per seed, instead of a prior.
///     batch: images at a time.
///     dtype: "uint8" or "float64".
///     progress: whether to show a bar.
#[pyfunction]
#[pyo3(signature = (denoiser, path, seeds, *, steps=100, sampler="momentum", prior=None, start=None, batch=None, dtype=None, progress=true))]
#[allow(clippy::too_many_arguments)] // As Python's users call it, by name.
pub fn sample<'py>(
    py: Python<'py>,
    denoiser: Py<PyAny>,
    path: &Bound<'py, Path>,
    seeds: Seeds,
    steps: usize,
    sampler: &str,
    prior: Option<&Bound<'py, PyAny>>,
    start: Option<&Bound<'py, PyAny>>,
    batch: Option<usize>,
    dtype: Option<&Bound<'py, PyAny>>,
    progress: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let (path, seeds, floats) = (path.get().0.clone(), seeds.0, wants_floats(py, dtype)?);
    let shape = path.shape();
    if !denoiser.bind(py).is_callable() {
        return Err(PyTypeError::new_err("denoiser cannot be called; give a function f(xt, t) or a model"));
    }
    let sampler = by_name(sampler, &Options::default()).map_err(raised)?;
    let sampling = Sampling::uniform(steps).map_err(raised)?;
    let prior = match (prior, start) {
        (Some(_), Some(_)) => return Err(PyTypeError::new_err("give prior or start, not both")),
        (Some(images), None) => {
            let images = Images::dataset_of(images, "prior")?;
            let of = Shape::new(images.height(), images.width(), images.channels());
            if of != shape {
                return Err(PyValueError::new_err(format!("prior has images of {of}, the path is for {shape}")));
            }
            let section = PriorSection::usual(&path, images.len()).map_err(raised)?;
            py.detach(|| section.make(&path, images.pixels(), 0)).map_err(raised)?
        }
        (None, _) => Prior::noise(&path).map_err(raised)?,
    };
    let start = start.map(|start| noisy_values(start, "start", shape)).transpose()?;
    let dimensions = batch_of(seeds.len(), shape);
    let progress = Progress::new(py, progress)?;
    let denoiser = Arc::new(denoiser);
    let result = worker::run(py, |worker| {
        let batch = batch.unwrap_or(batch_size::SAMPLING.on(&softdiff::Device::Cpu)).max(1);
        let mut denoiser = PythonDenoiser { function: denoiser, shape, worker };
        let generation = Generation { path: &path, prior: &prior, sampler: &*sampler, sampling: &sampling, batch };
        let mut watch = sampling_watch(worker, &progress, steps);
        match start {
            Some((x1, _)) => generation.images_from(&mut denoiser, &x1, &seeds, &mut watch),
            None => generation.images(&mut denoiser, &seeds, &mut watch),
        }
    });
    progress.close(py)?;
    as_asked(py, result?.map_err(raised)?, &dimensions, floats)
}
