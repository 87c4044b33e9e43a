//! Restoring an uploaded image with a model: samples, their mean, and where they differ.

mod photograph;

use super::Studio;
use super::jobs::Job;
use super::problem::HttpProblem;
use super::sample::sheet;
use photograph::PhotographOrder;
use serde::Deserialize;
use serde_json::{Value, json};
use softdiff::corruption::{Boundary, Shape};
use softdiff::image::{Picture, resize, to_unit};
use softdiff::model::Model;
use softdiff::recipe::SampleSection;
use softdiff::restore::{PathEntry, Restoration, RestoreError, Task, known_pixels};
use softdiff::sampler::{Denoiser, SamplerError};

/// Samples and steps at most.
const SAMPLES: usize = 8;
const STEPS: usize = 1000;
/// Blur of an image that is degraded here to be deblurred, in pixels, and how many times smaller one is made to be
/// super-resolved.
const USUAL_BLUR: f64 = 1.5;
const USUAL_FACTOR: usize = 2;

/// The fields of the form "Restore".
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RestoreForm {
    model: String,
    picture: String,
    task: RestoreTask,
    /// Pixels of blur; estimated from the image if not given.
    level: Option<f64>,
    /// What a blur saw beyond the border; as for `softdiff restore` if not given.
    boundary: Option<Boundary>,
    /// How many times smaller the image is made, to be super-resolved.
    factor: Option<usize>,
    /// The rectangle to inpaint.
    hole: Option<Hole>,
    /// Degrade the image first.
    degrade: bool,
    samples: usize,
    steps: usize,
}

/// The values of the field "Task".
#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RestoreTask {
    Deblur,
    Denoise,
    Inpaint,
    SuperResolve,
    Colourise,
}

/// A rectangle of the image, in its pixels.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hole {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

impl Hole {
    /// A mask as large as the image, white where the hole is.
    fn mask(&self, picture: &Picture) -> Picture {
        let within = |at: usize, first: usize, count: usize| at >= first && at - first < count;
        let (width, height) = (picture.width, picture.height);
        let white = |x, y| within(x, self.left, self.width) && within(y, self.top, self.height);
        let pixels = (0..width * height).map(|at| if white(at % width, at / width) { 255 } else { 0 }).collect();
        Picture { width, height, channels: 1, pixels }
    }
}

/// `POST /api/restore`: checks the form and queues the task; the answer has its identifier.
pub fn submit(studio: &Studio, body: &[u8]) -> Result<Value, HttpProblem> {
    let order: RestoreForm = serde_json::from_slice(body)
        .map_err(|error| HttpProblem::refused(error.to_string(), "use the page's own form"))?;
    if order.samples > SAMPLES || !(1..=STEPS).contains(&order.steps) {
        let problem = format!("{} samples in {} steps cannot be had", order.samples, order.steps);
        return Err(HttpProblem::refused(problem, format!("give up to {SAMPLES} samples and 1 to {STEPS} steps")));
    }
    let (picture, photograph) = (studio.images.get(&order.picture)?, studio.images.photograph(&order.picture)?);
    let (name, place) = studio.models.place(&order.model)?;
    let models = studio.models.clone();
    studio.jobs.submit(format!("restoring with {name}"), move |job| {
        let model = models.open(&place)?;
        let device = models.device()?;
        if model.takes_any_size() {
            let order = PhotographOrder { model: &model, file: &photograph, shown: &picture, form: &order };
            return order.restore(job, device).map_err(HttpProblem::failed);
        }
        if order.samples == 0 {
            return Err(HttpProblem::refused("this model restores by samples", "give 1 to 8 samples"));
        }
        let precision = model.recipe.train.precision;
        let mut denoiser = model.denoiser(device, order.samples, precision).map_err(HttpProblem::failed)?;
        let (found, shape) = (&photograph.picture, model.path.shape());
        // An image to be made larger is taken as the page shows it, others as the model's are.
        let taken = match order.task == RestoreTask::SuperResolve && !order.degrade {
            true => (picture.width, picture.height),
            false => (shape.width, shape.height),
        };
        if order.picture.starts_with("upload-") && (found.width, found.height) != taken {
            let sizes = format!("{}x{} pixels, made {}x{}", found.width, found.height, taken.0, taken.1);
            let remedy = "a model for photographs restores it as it is";
            job.show(json!({ "text": format!("The image has {sizes} for this model; {remedy}.") }));
        }
        restore(job, &model, &mut denoiser, &picture, &order).map_err(HttpProblem::failed)
    })
}

impl RestoreForm {
    /// What to undo; `mask` is an image that is white where to fill in.
    fn task(&self, mask: impl FnOnce(&Hole) -> Picture) -> Result<Task, RestoreError> {
        Ok(match self.task {
            RestoreTask::Deblur => Task::Deblur {
                kind: None,
                level: self.level.or(self.degrade.then_some(USUAL_BLUR)),
                boundary: self.boundary,
                direction: None,
            },
            RestoreTask::Denoise => Task::Denoise,
            RestoreTask::Inpaint => {
                let mask = mask(self.hole.as_ref().ok_or(RestoreError::NoMask)?);
                Task::Inpaint { known: known_pixels(&to_unit(&mask.pixels), "the rectangle")? }
            }
            RestoreTask::SuperResolve => {
                Task::SuperResolve { factor: Some(self.factor.unwrap_or(USUAL_FACTOR)), filter: None }
            }
            RestoreTask::Colourise => Task::Colourise,
        })
    }
}

fn restore(
    job: &Job,
    model: &Model,
    inner: &mut dyn Denoiser,
    picture: &Picture,
    order: &RestoreForm,
) -> Result<(), RestoreError> {
    let shape = model.path.shape();
    let task = order.task(|hole| resized(&hole.mask(picture), Shape { channels: 1, ..shape }))?;
    // An image to be made larger is taken as it is.
    let seen = match order.task == RestoreTask::SuperResolve && !order.degrade {
        true => picture.clone(),
        false => resized(picture, shape),
    };
    let section = SampleSection { steps: order.steps, ..model.recipe.restoring().sample };
    let restoration = Restoration::new(model).task(task).sampling(section.clone()).seeds(0..order.samples as u64);
    let observed = if order.degrade { restoration.degrade(&seen)? } else { restoration.observe(&seen)? };
    job.show(json!({ "name": "what was seen", "png": sheet(shape, observed.observation.values()) }));
    let total = restoration.evaluations(&observed)?;
    let mut done = 0;
    let mut counted = |xt: &[f64], t: f64| {
        if job.is_cancelled() {
            return Err(SamplerError::Denoiser("stopped".into()));
        }
        done += 1;
        job.update(done.min(total), total);
        inner.x0_hat(xt, t)
    };
    let restored = restoration.restore_with(&mut counted, order.samples, observed, &mut |_| {})?;
    job.show(json!({ "name": "mean: the best guess", "png": sheet(shape, &restored.mean) }));
    job.show(json!({ "name": "where samples differ", "png": sheet(shape, &restored.spread()) }));
    for (index, sample) in restored.samples.chunks_exact(shape.len()).enumerate() {
        job.show(json!({ "name": format!("sample {index}"), "png": sheet(shape, sample) }));
    }
    let begun = match restored.observed.entry {
        PathEntry::At { t, .. } => format!("entered at t = {t:.3}"),
        PathEntry::Beginning => "from the path's end".to_owned(),
    };
    if let Some((problem, remedy)) = restored.warning() {
        job.show(json!({ "text": format!("Warning: {problem}; {}", remedy.replace("--", "")) }));
    }
    let (noise, sampler) = (restored.observed.observation.sigma(), &section.sampler);
    job.show(
        json!({ "text": format!("{}; {begun}, noise {noise:.4}, {sampler} in {total} evaluations", model.stage()) }),
    );
    Ok(())
}

/// The image as the model's images are: cut to their sides' ratio about its middle, resized, in their colours.
fn resized(picture: &Picture, shape: Shape) -> Picture {
    let (width, height) = (picture.width, picture.height);
    let wide = width * shape.height > height * shape.width;
    let kept = match wide {
        true => ((height * shape.width / shape.height).max(1), height),
        false => (width, (width * shape.height / shape.width).max(1)),
    };
    let cut = picture.crop((width - kept.0) / 2, (height - kept.1) / 2, kept.0, kept.1);
    let cut = cut.unwrap_or_else(|| picture.clone()).with_channels(shape.channels);
    resize::bilinear(&cut, shape.width, shape.height)
}
