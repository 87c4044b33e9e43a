//! Restoring images.

use crate::arguments::{self, Seeds, Sets, word};
use crate::error::raised;
use crate::images::{Images, array, batch_of, picture_of, rows};
use crate::model::{Model, as_asked};
use crate::progress::Progress;
use crate::worker;
use numpy::PyArrayDyn;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use softdiff::corruption::{Boundary, Kernel, Shape};
use softdiff::image::Picture;
use softdiff::restore::{self, BlurKind, PhotoQuality, Restoration, RestoreEvent, Task, known_pixels};
use std::path::PathBuf;

const QUALITIES: [(&str, PhotoQuality); 3] =
    [("fast", PhotoQuality::Fast), ("default", PhotoQuality::Default), ("best", PhotoQuality::Best)];

/// What happened to an image, as Python's arguments say it.
pub struct TaskArguments<'py> {
    pub task: Option<String>,
    pub corruption: Option<String>,
    pub level: Option<f64>,
    pub boundary: Option<String>,
    pub angle: Option<f64>,
    pub kernel: Option<Bound<'py, PyAny>>,
    pub mask: Option<Bound<'py, PyAny>>,
    pub factor: Option<usize>,
    pub t: Option<f64>,
}

impl TaskArguments<'_> {
    /// The arguments that were given.
    fn given(&self) -> Vec<&'static str> {
        let given = [
            ("corruption", self.corruption.is_some()),
            ("level", self.level.is_some()),
            ("boundary", self.boundary.is_some()),
            ("angle", self.angle.is_some()),
            ("kernel", self.kernel.is_some()),
            ("mask", self.mask.is_some()),
            ("factor", self.factor.is_some()),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }

    /// Refuses what would have no effect.
    fn only(&self, task: &str, used: &[&str]) -> PyResult<()> {
        match self.given().into_iter().find(|name| !used.contains(name)) {
            Some(name) => Err(PyTypeError::new_err(format!("{name} has no effect on the task {task:?}; leave it out"))),
            None => Ok(()),
        }
    }

    /// The task; none where the image shows it.
    fn task(&self, model: &softdiff::Model, image: &Picture) -> PyResult<Option<Task>> {
        if let Some(t) = self.t {
            self.only("t", &[])?;
            return Ok(Some(Task::OnPath { t }));
        }
        let named = match &self.task {
            Some(task) => task.as_str(),
            None if self.mask.is_some() => "inpaint",
            None if self.given().iter().any(|name| *name != "factor") => "deblur",
            None if self.factor.is_some() => "super-resolve",
            None => return Ok(None),
        };
        let tasks = ["deblur", "denoise", "inpaint", "super-resolve", "colourise"].map(|name| (name, name));
        match word("task", named, &tasks)? {
            "deblur" => {
                self.only(named, &["corruption", "level", "boundary", "angle", "kernel"])?;
                let boundaries = Boundary::ALL.map(|boundary| (boundary.name(), boundary));
                let boundary = self.boundary.as_ref().map(|given| word("boundary", given, &boundaries)).transpose()?;
                Ok(Some(Task::Deblur { kind: self.blur()?, level: self.level, boundary, direction: None }))
            }
            "inpaint" => {
                self.only(named, &["mask"])?;
                let Some(mask) = &self.mask else {
                    return Err(PyTypeError::new_err("inpainting needs a mask: True where the image is missing"));
                };
                Ok(Some(Task::Inpaint { known: self.known(mask, model, image)? }))
            }
            "super-resolve" => {
                self.only(named, &["factor"])?;
                Ok(Some(Task::SuperResolve { factor: self.factor, filter: None }))
            }
            named => {
                self.only(named, &[])?;
                Ok(Some(if named == "denoise" { Task::Denoise } else { Task::Colourise }))
            }
        }
    }

    fn blur(&self) -> PyResult<Option<BlurKind>> {
        if let Some(kernel) = &self.kernel {
            let (_, width, values) = rows(kernel, "kernel")?;
            let rows: Vec<Vec<f64>> = values.chunks(width.max(1)).map(<[f64]>::to_vec).collect();
            return Ok(Some(BlurKind::Kernel(Kernel::from_rows(&rows).map_err(raised)?)));
        }
        let Some(name) = &self.corruption else { return Ok(None) };
        let names = ["blur", "heat", "motion", "defocus"].map(|name| (name, name));
        Ok(Some(match word("corruption", name, &names)? {
            "blur" => BlurKind::Gaussian,
            "heat" => BlurKind::Heat,
            "motion" => self.angle.map_or(BlurKind::Motion, |angle| BlurKind::Shaken { angle }),
            _ => BlurKind::Disc,
        }))
    }

    /// Which pixels a mask leaves known.
    fn known(&self, mask: &Bound<'_, PyAny>, model: &softdiff::Model, image: &Picture) -> PyResult<Vec<bool>> {
        let own = model.path.shape();
        let wanted = if model.takes_any_size() { (image.height, image.width) } else { (own.height, own.width) };
        // A mask of booleans is one of 0 and 1.
        let is_bool = mask.getattr("dtype").and_then(|dtype| dtype.getattr("kind")?.extract::<String>());
        let mask = match is_bool.as_deref() {
            Ok("b") => Images::of(&mask.call_method1("astype", ("float64",))?, "mask")?,
            _ => Images::of(mask, "mask")?,
        };
        let Shape { height, width, channels } = mask.shape;
        if (height, width) != wanted || mask.count() != 1 {
            let (h, w) = wanted;
            let message = format!("mask has the shape {:?}; give [{h}, {w}], as the image has", mask.dimensions);
            return Err(PyValueError::new_err(message));
        }
        let values: Vec<f64> = mask.values().chunks(channels).map(|p| p.iter().sum::<f64>() / p.len() as f64).collect();
        known_pixels(&values, "mask").map_err(raised)
    }
}

/// Images that explain a degraded one.
#[pyclass(frozen, module = "softdiff")]
pub struct Restored(restore::Restored);

#[pymethods]
impl Restored {
    /// The best guess in squared error, floats [height, width, channels]: the mean of the samples, or of a photograph what plug
    /// and play finds without any.
    #[getter]
    fn mean<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        self.one(py, &self.0.mean)
    }

    /// The standard deviation of each value over the samples; zeros where there is one only.
    #[getter]
    fn std<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        self.one(py, &self.0.std)
    }

    /// The samples, floats [n, height, width, channels].
    #[getter]
    fn samples<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let shape = self.shape();
        array(py, self.0.samples.clone(), &batch_of(self.0.samples.len() / shape.len(), shape))
    }

    /// The best guess as uint8.
    #[getter]
    fn image<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        as_asked(py, self.0.mean.clone(), &batch_of(1, self.shape())[1..], false)
    }

    /// What was seen, as floats of the size of the result.
    #[getter]
    fn seen<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        self.one(py, self.0.observed.observation.values())
    }

    /// How far the mean, degraded again, is from what was seen, in units of its noise: about 1 where it explains it.
    #[getter]
    fn misfit(&self) -> f64 {
        self.0.misfit
    }

    /// What was undone, in words.
    #[getter]
    fn task(&self) -> &str {
        self.0.observed.task
    }

    /// The level of the blur, given or estimated.
    #[getter]
    fn level(&self) -> Option<f64> {
        self.0.observed.level
    }

    /// The standard deviation of the noise, given or estimated.
    #[getter]
    fn noise(&self) -> f64 {
        self.0.observed.observation.sigma()
    }

    /// The time at which the model's path was entered.
    #[getter]
    fn entered_at(&self) -> f64 {
        self.0.observed.entry.time()
    }

    /// What to say of a result that does not explain what was seen; else None.
    #[getter]
    fn warning(&self) -> Option<String> {
        self.0.warning().map(|(problem, remedy)| format!("{problem}; {remedy}"))
    }

    fn __repr__(&self) -> String {
        let samples = self.0.samples.len() / self.shape().len();
        format!("<softdiff.Restored {}: {samples} samples, misfit {:.2}>", self.0.observed.task, self.0.misfit)
    }
}

impl Restored {
    fn shape(&self) -> Shape {
        self.0.observed.observation.shape()
    }

    fn one<'py>(&self, py: Python<'py>, values: &[f64]) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        array(py, values.to_vec(), &batch_of(1, self.shape())[1..])
    }
}

/// How an image is restored, apart from what happened to it.
pub struct RestoreOptions {
    pub noise: Option<f64>,
    pub seeds: Option<Seeds>,
    pub steps: Option<usize>,
    pub sampler: Option<String>,
    pub set: Option<Sets>,
    pub quality: Option<String>,
    pub free: bool,
    pub batch: Option<usize>,
    pub progress: bool,
}

/// Restores one image.
pub fn restore_one(
    py: Python<'_>,
    model: &Model,
    image: &Bound<'_, PyAny>,
    task: &TaskArguments<'_>,
    options: RestoreOptions,
) -> PyResult<Restored> {
    let image = picture_of(image, "image")?;
    let task = task.task(&model.inner, &image)?;
    let RestoreOptions { noise, seeds, steps, sampler, set, quality, free, batch, progress } = options;
    let (samples, steps) = match (model.inner.takes_any_size(), &quality) {
        (true, quality) => {
            let usual = word("quality", quality.as_deref().unwrap_or("default"), &QUALITIES)?.steps();
            (0, Some(steps.unwrap_or(usual)))
        }
        (false, None) => (8, steps),
        (false, Some(_)) => {
            let message = "quality has no effect: this model makes images of one size; give seeds and steps";
            return Err(PyTypeError::new_err(message));
        }
    };
    let seeds = seeds.map_or_else(|| (0..samples).collect(), |seeds| seeds.0);
    let section = arguments::restoring(&model.inner.recipe, free, sampler, steps, set)?;
    let progress = Progress::new(py, progress)?;
    let result = worker::run(py, |worker| {
        let stop = || worker.is_ended();
        let restoration = Restoration::new(&model.inner)
            .task(task)
            .noise(noise)
            .sampling(section)
            .seeds(seeds)
            .unconditioned(free)
            .batch(batch)
            .device(&model.device)
            .stop_if(&stop);
        let restoration = match steps {
            Some(steps) => restoration.guess_steps(steps),
            None => restoration,
        };
        let observed = restoration.observe(&image)?;
        let unit = if restoration.tiles(&observed, &model.device).is_some() { "tiles" } else { "samples" };
        restoration.restore(observed, &mut |event| {
            if let RestoreEvent::Work { done, total } = event {
                progress.update(worker, "restoring", unit, (done, total));
            }
            worker.unwind_if_ended();
        })
    });
    progress.close(py)?;
    result?.map(Restored).map_err(raised)
}

/// Where the model for photographs is.
#[pyfunction]
pub fn photo_model() -> PyResult<PathBuf> {
    restore::photo_model().map_err(raised)
}
