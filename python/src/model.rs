//! Trained models.

use crate::arguments::{self, Seeds, Sets};
use crate::error::{raised, with_hint};
use crate::images::{array, batch_of, noisy_values};
use crate::path::Path;
use crate::progress::Progress;
use crate::restore::{RestoreOptions, Restored, TaskArguments, restore_one};
use crate::schedule::Schedule;
use crate::steps::DenoiseSteps;
use crate::worker::{self, Worker};
use numpy::PyArrayDyn;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use softdiff::Device;
use softdiff::corruption::Shape;
use softdiff::image::from_unit;
use softdiff::model::{CheckpointChoice, ModelError, NetworkDenoiser};
use softdiff::recipe::Weights;
use softdiff::sampler::{Denoiser, SamplerError};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A trained model: a network, the path it was trained on, and where that path ends. `softdiff.load` opens one.
#[pyclass(frozen, module = "softdiff")]
pub struct Model {
    pub inner: Arc<softdiff::Model>,
    pub device: Device,
    /// Of the last call of `denoise`, with its batch.
    denoiser: Mutex<Option<(usize, NetworkDenoiser)>>,
}

impl Model {
    pub fn new(model: softdiff::Model, device: Device) -> Model {
        Model { inner: Arc::new(model), device, denoiser: Mutex::new(None) }
    }
}

/// Opens a model: a run's folder, one of its checkpoints, an exported model, or imported weights.
///
/// Args:
///     model: where it is.
///     device: "auto" (the first GPU, else the CPU), "cpu", "cuda", "cuda:1".
///     checkpoint: of a run: "best", "last", or a step; by default the best where one was scored, else the last.
///     weights: "ema-0.999" and the like, "raw", or "posthoc-0.05"; by default those that the recipe samples with.
///     guide: where a weaker model of the same path is, to guide samples by (autoguidance) where "sample.guidance" is not 1.
#[pyfunction]
#[pyo3(signature = (model, *, device="auto", checkpoint=None, weights=None, guide=None))]
pub fn load(
    py: Python<'_>,
    model: PathBuf,
    device: &str,
    checkpoint: Option<&Bound<'_, PyAny>>,
    weights: Option<&str>,
    guide: Option<PathBuf>,
) -> PyResult<Model> {
    let wrong = |what: &str, given: &str, hint: String| with_hint(&format!("{what} is {given:?}"), Some(&hint));
    let checkpoint = match checkpoint {
        None => CheckpointChoice::Usual,
        Some(choice) => {
            let text = choice.str()?.to_string();
            text.parse().map_err(|hint| wrong("checkpoint", &text, hint))?
        }
    };
    let weights: Option<Weights> =
        weights.map(|text| text.parse().map_err(|hint| wrong("weights", text, hint))).transpose()?;
    let device = arguments::device(device)?;
    let opened = py.detach(|| {
        let opened = softdiff::Model::open_at(&model, weights, checkpoint)?;
        match guide {
            Some(guide) => opened.with_guide(softdiff::Model::open(&guide, None)?),
            None => Ok(opened),
        }
    });
    Ok(Model::new(opened.map_err(raised)?, device))
}

#[pymethods]
impl Model {
    /// Makes images, one per seed. An image depends on the model and on its own seed alone, and is the same as
    /// `softdiff sample` makes it.
    ///
    /// Args:
    ///     seeds: whole numbers, such as range(64).
    ///     steps: of the sampler; by default as in the model's recipe.
    ///     sampler: its name, such as "heun"; by default as in the recipe.
    ///     set: changes of the recipe's [sample], such as {"sample.churn_rate": 2} or {"sample.guidance": 1.5}.
    ///     batch: images at a time: a matter of memory and speed.
    ///     dtype: "uint8", or "float64" for values in the range of the data that are not cut off to it.
    ///     progress: whether to show a bar.
    ///
    /// Returns:
    ///     An array [n, height, width, channels].
    #[pyo3(signature = (seeds=None, *, steps=None, sampler=None, set=None, batch=None, dtype=None, progress=true))]
    #[allow(clippy::too_many_arguments)] // As Python's users call it, by name.
    fn sample<'py>(
        &self,
        py: Python<'py>,
        seeds: Option<Seeds>,
        steps: Option<usize>,
        sampler: Option<String>,
        set: Option<Sets>,
        batch: Option<usize>,
        dtype: Option<&Bound<'py, PyAny>>,
        progress: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let seeds = seeds.map_or_else(|| (0..64).collect(), |seeds| seeds.0);
        let floats = wants_floats(py, dtype)?;
        let section = arguments::sampling(&self.inner.recipe, sampler, steps, set)?;
        let progress = Progress::new(py, progress)?;
        let per_image = section.steps;
        let dimensions = batch_of(seeds.len(), self.inner.path.shape());
        let result = worker::run(py, |worker| -> Result<Sampled, ModelError> {
            let request = self.inner.sample(seeds).sampling(section).device(&self.device);
            let request = match batch {
                Some(batch) => request.batch(batch),
                None => request,
            };
            let mut watch = sampling_watch(worker, &progress, per_image);
            Ok(match floats {
                true => Sampled::Values(request.values_watched(&mut watch)?),
                false => Sampled::Bytes(request.images_watched(&mut watch)?.pixels().to_vec()),
            })
        });
        progress.close(py)?;
        Ok(match result?.map_err(raised)? {
            Sampled::Values(values) => array(py, values, &dimensions)?.into_any(),
            Sampled::Bytes(bytes) => array(py, bytes, &dimensions)?.into_any(),
        })
    }

    /// Restores a degraded image: images that explain it, their mean, and how far they differ.
    ///
    /// Args:
    ///     image: a file, or an array [height, width, channels] or [height, width]; floats are rounded to 8 bits.
    ///     task: "deblur", "denoise", "inpaint", "super-resolve" or "colourise"; by default what the image and the other
    ///         arguments look like, else "deblur".
    ///     corruption: of "deblur": "blur", "heat", "motion" or "defocus"; by default the model's own where it blurs.
    ///     level: of "deblur": its strength in pixels; estimated from the image where it can be.
    ///     boundary: of "deblur": what the blur saw beyond the border: "zero", "reflect" or "periodic".
    ///     angle: of motion: in degrees from the horizontal, counterclockwise.
    ///     kernel: of "deblur": what a point of light became, an array of rows that sum to 1.
    ///     mask: of "inpaint": [height, width], True or 1 where the image is missing.
    ///     factor: of "super-resolve" with a model of any size: how many times larger.
    ///     t: enters the model's path at this time: the image is corrupted as the path is there.
    ///     noise: its standard deviation, for values from 0 to 1; estimated from the image where it can be.
    ///     seeds: one sample for each; by default range(8), or as `quality` says.
    ///     steps, sampler, set: as of `sample`; entered on its way, the path takes its share of the steps.
    ///     quality: of models that take images of any size: "fast", "default" or "best".
    ///     free: whether to go back along the path without looking at the image again.
    ///     batch: samples at a time.
    ///     progress: whether to show a bar.
    #[pyo3(signature = (
        image, task=None, *, corruption=None, level=None, boundary=None, angle=None, kernel=None, mask=None, factor=None,
        t=None, noise=None, seeds=None, steps=None, sampler=None, set=None, quality=None, free=false, batch=None,
        progress=true
    ))]
    #[allow(clippy::too_many_arguments)] // As Python's users call it, by name.
    fn restore<'py>(
        &self,
        py: Python<'py>,
        image: &Bound<'py, PyAny>,
        task: Option<String>,
        corruption: Option<String>,
        level: Option<f64>,
        boundary: Option<String>,
        angle: Option<f64>,
        kernel: Option<Bound<'py, PyAny>>,
        mask: Option<Bound<'py, PyAny>>,
        factor: Option<usize>,
        t: Option<f64>,
        noise: Option<f64>,
        seeds: Option<Seeds>,
        steps: Option<usize>,
        sampler: Option<String>,
        set: Option<Sets>,
        quality: Option<String>,
        free: bool,
        batch: Option<usize>,
        progress: bool,
    ) -> PyResult<Restored> {
        let task = TaskArguments { task, corruption, level, boundary, angle, kernel, mask, factor, t };
        let options = RestoreOptions { noise, seeds, steps, sampler, set, quality, free, batch, progress };
        restore_one(py, self, image, &task, options)
    }

    /// Makes images one step at a time: an iterator over (t, xt, x0_hat), from t = 1 to t = 0, where both are the finished
    /// images. For plots and experiments.
    ///
    /// Args:
    ///     seed: of one image; the arrays are then [height, width, channels].
    ///     seeds: of several, made together; the arrays are then [n, height, width, channels].
    ///     steps, sampler, set: as of `sample`.
    #[pyo3(signature = (seed=None, *, seeds=None, steps=None, sampler=None, set=None))]
    fn denoise_steps(
        &self,
        py: Python<'_>,
        seed: Option<u64>,
        seeds: Option<Seeds>,
        steps: Option<usize>,
        sampler: Option<String>,
        set: Option<Sets>,
    ) -> PyResult<DenoiseSteps> {
        let shape = self.inner.path.shape();
        let (seeds, dimensions) = match (seed, seeds) {
            (Some(_), Some(_)) => return Err(PyTypeError::new_err("give seed or seeds, not both")),
            (None, Some(Seeds(seeds))) => (seeds.clone(), batch_of(seeds.len(), shape).to_vec()),
            (seed, None) => (vec![seed.unwrap_or(0)], batch_of(1, shape)[1..].to_vec()),
        };
        let section = arguments::sampling(&self.inner.recipe, sampler, steps, set)?;
        let request = self.inner.sample(seeds).sampling(section).device(&self.device);
        let steps = py.detach(|| request.denoise_steps()).map_err(raised)?;
        Ok(DenoiseSteps::new(steps, dimensions))
    }

    /// Predicts clean images: x0_hat = E[x0 | x_t] at time t, without guidance, for samplers of one's own. Also as `model(xt, t)`.
    ///
    /// Args:
    ///     xt: floats, [n, height, width, channels] or [height, width, channels].
    ///     t: from 0 (clean) to 1 (corrupted).
    fn denoise<'py>(&self, py: Python<'py>, xt: &Bound<'py, PyAny>, t: f64) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let shape = self.inner.path.shape();
        let (values, dimensions) = noisy_values(xt, "xt", shape)?;
        let batch = (values.len() / shape.len()).max(1);
        let predicted = py.detach(|| -> Result<Vec<f64>, SamplerError> {
            let mut kept = self.denoiser.lock().unwrap_or_else(PoisonError::into_inner);
            let mut denoiser = match kept.take().filter(|(of, _)| *of == batch) {
                Some((_, denoiser)) => denoiser,
                None => self.inner.denoiser(&self.device, batch, self.inner.recipe.train.precision)?,
            };
            let predicted = denoiser.x0_hat(&values, t);
            *kept = Some((batch, denoiser));
            predicted
        });
        array(py, predicted.map_err(raised)?, &dimensions)
    }

    fn __call__<'py>(&self, py: Python<'py>, xt: &Bound<'py, PyAny>, t: f64) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        self.denoise(py, xt, t)
    }

    /// x_1 of each seed, where sampling starts: floats [n, height, width, channels].
    fn starts<'py>(&self, py: Python<'py>, seeds: Seeds) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let x1 = py.detach(|| self.inner.starts(&seeds.0));
        array(py, x1, &batch_of(seeds.0.len(), self.inner.path.shape()))
    }

    /// Writes the model into a folder, which `load` and the command line open; `half` stores its weights in bf16.
    #[pyo3(signature = (folder, *, half=false))]
    fn export(&self, py: Python<'_>, folder: PathBuf, half: bool) -> PyResult<()> {
        py.detach(|| self.inner.export(&folder, half)).map(drop).map_err(raised)
    }

    /// What it is called.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    /// Height, width and channels of its images.
    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        let Shape { height, width, channels } = self.inner.path.shape();
        (height, width, channels)
    }

    /// The path it was trained on.
    #[getter]
    fn path(&self) -> Path {
        Path(self.inner.path.clone())
    }

    /// The levels of that path, where they were measured.
    #[getter]
    fn schedule(&self) -> Option<Schedule> {
        self.inner.schedule.clone().map(Schedule)
    }

    /// Training steps behind its weights.
    #[getter]
    fn step(&self) -> u64 {
        self.inner.step
    }

    /// Which weights these are, such as "ema-0.999".
    #[getter]
    fn weights(&self) -> String {
        self.inner.weights.to_string()
    }

    /// The recipe it was trained by, with every key.
    #[getter]
    fn recipe(&self) -> String {
        self.inner.recipe.to_toml()
    }

    /// What it computes on.
    #[getter]
    fn device(&self) -> String {
        self.device.to_string()
    }

    /// Whether it restores images of any size.
    #[getter]
    fn takes_any_size(&self) -> bool {
        self.inner.takes_any_size()
    }

    fn __repr__(&self) -> String {
        let (name, shape, stage) = (&self.inner.name, self.inner.path.shape(), self.inner.stage());
        format!("<softdiff.Model {name:?} of {shape} images, {stage}, on {}>", self.device)
    }
}

enum Sampled {
    Bytes(Vec<u8>),
    Values(Vec<f64>),
}

/// Shows the steps of a sampler as images of `per_image` steps, and ends the sampling where Python asks for it.
pub fn sampling_watch<'a>(
    worker: &'a Worker,
    progress: &'a Progress,
    per_image: usize,
) -> impl FnMut(usize, usize) -> Result<(), SamplerError> + use<'a> {
    move |done, total| {
        let per_image = per_image.max(1);
        progress.update(worker, "sampling", "images", (done / per_image, total / per_image));
        if worker.is_ended() { Err(SamplerError::Stopped) } else { Ok(()) }
    }
}

/// Whether floats are asked for.
pub fn wants_floats(py: Python<'_>, dtype: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
    let Some(dtype) = dtype else { return Ok(false) };
    let name: String = py.import("numpy")?.call_method1("dtype", (dtype,))?.getattr("name")?.extract()?;
    match name.as_str() {
        "uint8" => Ok(false),
        "float64" => Ok(true),
        _ => Err(PyTypeError::new_err(format!("dtype is {name}; give uint8 or float64"))),
    }
}

/// Values as bytes or as they are.
pub fn as_asked<'py>(
    py: Python<'py>,
    values: Vec<f64>,
    dimensions: &[usize],
    floats: bool,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(match floats {
        true => array(py, values, dimensions)?.into_any(),
        false => array(py, from_unit(&values), dimensions)?.into_any(),
    })
}
