//! Training.

use crate::arguments::{self, Sets};
use crate::corruption::{CorruptionKind, kind_of};
use crate::error::{raised, with_hint};
use crate::images::Images;
use crate::model::Model;
use crate::path::Path;
use crate::progress::Progress;
use crate::worker::{self, Outcome, Worker};
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError, PyUserWarning};
use pyo3::prelude::*;
use softdiff::corruption::Shape;
use softdiff::curve::Interpolation;
use softdiff::model::CheckpointChoice;
use softdiff::recipe::Recipe;
use softdiff::run::{Event, EventKind, RunFolder, StopRequest};
use softdiff::schedule::usual_candidates;
use softdiff::train::{TrainError, Trained, Watcher};
use softdiff::{Dataset, Training, path};
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Arc;

/// Levels of a corruption that no recipe describes.
const KNOTS: usize = 32;

/// A finished training.
#[pyclass(frozen, module = "softdiff")]
pub struct Run {
    /// The trained model, with the weights that its recipe samples with.
    #[pyo3(get)]
    model: Py<Model>,
    /// Steps done.
    #[pyo3(get)]
    step: u64,
    /// The step it went on from.
    #[pyo3(get)]
    from_step: u64,
    /// Seconds of training in all sessions.
    #[pyo3(get)]
    seconds: f64,
    /// Its folder; None where it was trained in memory.
    #[pyo3(get)]
    out: Option<PathBuf>,
}

#[pymethods]
impl Run {
    fn __repr__(&self) -> String {
        let place = self.out.as_ref().map_or("in memory".to_owned(), |out| format!("in {}", out.display()));
        format!("<softdiff.Run of {} steps {place}>", self.step)
    }
}

/// Trains a network, or continues a run; what is in its folder is never lost.
///
/// Ctrl-C saves a checkpoint in the folder and raises KeyboardInterrupt; the same call goes on from there, and the result is
/// the same, bit for bit, as without the interruption.
///
/// Args:
///     recipe: the name of a built-in recipe, or a recipe file; without it and without images, the run in `out` goes on by its
///         own recipe.
///     out: the run's folder; without it nothing is written.
///     set: changes of the recipe's keys, such as {"train.steps": 200}; `softdiff recipe keys` lists them.
///     images: an array of them, or a folder, an archive or a file: in place of those of the recipe, or without one.
///     corruption: for images without a recipe: a name such as "blur", or a corruption such as softdiff.Blur(18), whose levels
///         are measured on the images. softdiff.Custom takes a matrix, a kernel or a linear function.
///     path: for images without a recipe: a softdiff.Path, instead of a corruption.
///     steps, batch, seed: changes of train.steps, train.batch and seed.
///     device: as of `load`.
///     checkpoint: which to continue from: "best", "last" or a step; later ones are set aside.
///     callback: called with a dict for every event ("step" with its loss, "checkpoint", "preview", "evaluation", "note" and
///         others) in the thread that called; an exception ends the training as Ctrl-C does, and is raised.
///     progress: whether to show a bar.
#[pyfunction]
#[pyo3(signature = (
    recipe=None, *, out=None, set=None, images=None, corruption=None, path=None, steps=None, batch=None, seed=None,
    device="auto", checkpoint=None, callback=None, progress=true
))]
#[allow(clippy::too_many_arguments)] // As Python's users call it, by name.
pub fn train(
    py: Python<'_>,
    recipe: Option<PathBuf>,
    out: Option<PathBuf>,
    set: Option<Sets>,
    images: Option<&Bound<'_, PyAny>>,
    corruption: Option<&Bound<'_, PyAny>>,
    path: Option<&Bound<'_, Path>>,
    steps: Option<u64>,
    batch: Option<usize>,
    seed: Option<u64>,
    device: &str,
    checkpoint: Option<&Bound<'_, PyAny>>,
    callback: Option<Py<PyAny>>,
    progress: bool,
) -> PyResult<Run> {
    let images = images.map(|images| Images::dataset_of(images, "images")).transpose()?;
    let what = Subject::of(py, recipe, out.as_ref(), images, corruption, path)?;
    let checkpoint = match checkpoint {
        None => CheckpointChoice::Usual,
        Some(choice) => {
            let text = choice.str()?.to_string();
            text.parse().map_err(|hint: String| with_hint(&format!("checkpoint is {text:?}"), Some(&hint)))?
        }
    };
    let mut sets = set.unwrap_or_default().0;
    sets.extend(steps.map(|steps| format!("train.steps={steps}")));
    sets.extend(batch.map(|batch| format!("train.batch={batch}")));
    sets.extend(seed.map(|seed| format!("seed={seed}")));
    let device = arguments::device(device)?;
    let progress = Progress::new(py, progress)?;
    let callback = callback.map(Arc::new);
    let Outcome { result, raised: ended } = worker::run_to_end(py, |worker| {
        let mut watcher = PythonWatcher { worker, progress: &progress, callback, loss: None };
        let preparing = |task, unit, done, total| {
            progress.update(worker, task, unit, (done, total));
            worker.unwind_if_ended();
        };
        let training = sets.into_iter().fold(what.training(), Training::set);
        let training = training.device(&device).checkpoint(checkpoint).watch(&mut watcher).progress(&preparing);
        let trained = match &out {
            Some(out) => training.run_in(out)?,
            None => training.run()?,
        };
        let Trained { finished, .. } = &trained;
        Ok::<_, TrainError>((finished.step, finished.from_step, finished.seconds, trained.model()))
    });
    progress.close(py)?;
    match (ended, result) {
        (Some(error), Some(Err(TrainError::Stopped(stopped)))) if error.is_instance_of::<PyKeyboardInterrupt>(py) => {
            let again = if stopped.checkpoint.is_some() { "; the same call continues" } else { "" };
            Err(PyKeyboardInterrupt::new_err(format!("{stopped}{again}")))
        }
        (Some(error), _) => Err(error),
        (None, Some(result)) => {
            let (step, from_step, seconds, model) = result.map_err(raised)?;
            Ok(Run { model: Py::new(py, Model::new(model, device))?, step, from_step, seconds, out })
        }
        (None, None) => Err(PyKeyboardInterrupt::new_err(())),
    }
}

/// What is trained.
enum Subject {
    Named { recipe: String, images: Option<Dataset> },
    Saved(Box<Recipe>),
    Corrupted { images: Dataset, corruption: softdiff::recipe::CorruptionSection },
    OnPath { images: Dataset, path: Arc<path::Path> },
}

impl Subject {
    fn of(
        py: Python<'_>,
        recipe: Option<PathBuf>,
        out: Option<&PathBuf>,
        images: Option<Dataset>,
        corruption: Option<&Bound<'_, PyAny>>,
        path: Option<&Bound<'_, Path>>,
    ) -> PyResult<Subject> {
        if let Some(recipe) = recipe {
            if corruption.is_some() || path.is_some() {
                let message = "a recipe has its own path; change it by set, or leave the recipe out";
                return Err(PyTypeError::new_err(message));
            }
            return Ok(Subject::Named { recipe: recipe.to_string_lossy().into_owned(), images });
        }
        let Some(images) = images else {
            let config = out.map(|out| RunFolder::new(out).config()).filter(|config| config.is_file());
            let Some(config) = config else {
                return Err(PyTypeError::new_err("give a recipe, such as \"quickstart\", or images, or a run in out"));
            };
            return Ok(Subject::Saved(Box::new(Recipe::saved(&config, &[]).map_err(raised)?)));
        };
        let shape = Shape::new(images.height(), images.width(), images.channels());
        match (corruption, path) {
            (Some(_), Some(_)) => Err(PyTypeError::new_err("give corruption or path, not both")),
            (None, Some(path)) => Ok(Subject::OnPath { images, path: path.get().0.clone() }),
            (None, None) => Ok(Subject::Corrupted { images, corruption: Default::default() }),
            (Some(corruption), None) => match kind_of(corruption)? {
                CorruptionKind::Known(corruption) => Ok(Subject::Corrupted { images, corruption }),
                custom => {
                    let corruption = custom.build(py, shape)?;
                    let knots = usual_candidates(&*corruption, KNOTS).map_err(raised)?;
                    let path = path::Path::two_stage(corruption, knots, Interpolation::Linear).map_err(raised)?;
                    Ok(Subject::OnPath { images, path: Arc::new(path) })
                }
            },
        }
    }

    fn training<'a>(self) -> Training<'a> {
        match self {
            Subject::Named { recipe, images: None } => Training::from_recipe(&recipe),
            Subject::Named { recipe, images: Some(images) } => Training::from_recipe(&recipe).images(images),
            Subject::Saved(recipe) => Training::of(*recipe),
            Subject::Corrupted { images, corruption } => Training::corrupting(images, corruption),
            Subject::OnPath { images, path } => Training::new(images, path),
        }
    }
}

/// Shows the steps, and hands events to Python.
struct PythonWatcher<'a> {
    worker: &'a Worker,
    progress: &'a Progress,
    callback: Option<Arc<Py<PyAny>>>,
    loss: Option<f64>,
}

impl PythonWatcher<'_> {
    /// Calls back with a JSON object as a dict.
    fn call_back(&self, json: String) {
        let Some(callback) = self.callback.clone() else { return };
        // An exception ends the training by the request to stop.
        let _ = self.worker.call(move |py| {
            let event = py.import("json")?.call_method1("loads", (json,))?;
            callback.call1(py, (event,)).map(drop)
        });
    }
}

impl Watcher for PythonWatcher<'_> {
    fn note(&mut self, message: &str) {
        self.call_back(serde_json::json!({ "event": "note", "message": message }).to_string());
    }

    fn step(&mut self, done: u64, steps: u64, loss: f64) {
        // A moving mean over some twenty steps: single batches jump about.
        let mean = self.loss.map_or(loss, |mean| mean + 0.05 * (loss - mean));
        self.loss = Some(mean);
        let counts = (done as usize, steps as usize);
        self.progress.update_saying(self.worker, "training", "steps", counts, || format!("loss {mean:.4}"));
    }

    fn event(&mut self, event: &Event) {
        if let EventKind::Warning { message } = &event.kind {
            let text = format!("step {}: {message}", event.step);
            self.worker.post(move |py| {
                let text = CString::new(text.replace('\0', "")).unwrap_or_default();
                PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 0)
            });
        }
        if let Ok(json) = serde_json::to_string(event) {
            self.call_back(json);
        }
    }

    fn stop_request(&self) -> StopRequest {
        self.worker.stop_request()
    }
}
