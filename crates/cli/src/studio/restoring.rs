//! Restoring an uploaded picture with a model: samples, their mean, and where they differ.

use super::Studio;
use super::http::{Request, Response, Status};
use super::jobs::Job;
use super::sampling::sheet;
use crate::commands::restore::task::{Edge, Task, TaskFlags, known, poor_fit};
use crate::diagnostics::Failure;
use serde::Deserialize;
use serde_json::{Value, json};
use softdiff::corruption::Shape;
use softdiff::image::{Picture, resize, to_unit};
use softdiff::model::Model;
use softdiff::restore::{Entry, Match, Restoration, Spread};
use softdiff::sampler::{Denoiser, SamplerError};

/// Samples and steps at most.
const SAMPLES: usize = 8;
const STEPS: usize = 1000;
/// Blur of a picture that is degraded here to be deblurred, in pixels, and how many times smaller one is made to be
/// super-resolved.
const USUAL_BLUR: f64 = 1.5;
const USUAL_FACTOR: usize = 2;

/// What the page asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    model: String,
    picture: String,
    task: Task,
    /// Pixels of blur; estimated from the picture if not given.
    level: Option<f64>,
    /// What a blur saw beyond the border; as for `softdiff restore` if not given.
    boundary: Option<Edge>,
    /// How many times smaller the picture is made, to be super-resolved.
    factor: Option<usize>,
    /// What is to be filled in.
    hole: Option<Hole>,
    /// Degrade the picture first.
    degrade: bool,
    samples: usize,
    steps: usize,
}

/// A part of the picture, in its pixels.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hole {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

impl Hole {
    /// A mask as large as the picture, white where the hole is.
    fn mask(&self, picture: &Picture) -> Picture {
        let within = |at: usize, first: usize, count: usize| at >= first && at - first < count;
        let (width, height) = (picture.width, picture.height);
        let white = |x, y| within(x, self.left, self.width) && within(y, self.top, self.height);
        let pixels = (0..width * height).map(|at| if white(at % width, at / width) { 255 } else { 0 }).collect();
        Picture { width, height, channels: 1, pixels }
    }
}

/// `POST /api/restore`: a task.
pub fn submit(studio: &Studio, request: &Request) -> Result<Value, Response> {
    let order: Order = serde_json::from_slice(&request.body)
        .map_err(|error| Response::failed(format!("{error}; use the page's own form")))?;
    if !(1..=SAMPLES).contains(&order.samples) || !(1..=STEPS).contains(&order.steps) {
        let problem = format!("{} samples in {} steps cannot be had", order.samples, order.steps);
        return Err(Response::failed(format!("{problem}; give 1 to {SAMPLES} samples and 1 to {STEPS} steps")));
    }
    let picture = studio.pictures.get(&order.picture)?;
    let (name, place) = studio.models.place(&order.model)?;
    let models = studio.models.clone();
    studio.jobs.submit(format!("restoring with {name}"), move |job| {
        let model = models.open(&place)?;
        let precision = model.recipe.train.precision;
        let device = models.device()?;
        let mut denoiser = model.denoiser(device, order.samples, precision).map_err(Response::failed)?;
        restore(job, &model, &mut denoiser, &picture, &order).map_err(|failure| {
            let (problem, hint) = failure.words();
            Response::problem(Status::Impossible, problem, hint.unwrap_or_else(|| "try other values".into()))
        })
    })
}

fn restore(
    job: &Job,
    model: &Model,
    inner: &mut dyn Denoiser,
    picture: &Picture,
    order: &Order,
) -> Result<(), Failure> {
    let shape = model.path.shape();
    let degraded_blur = order.degrade.then_some(USUAL_BLUR);
    let (deblur, shrink) = (order.task == Task::Deblur, order.degrade && order.task == Task::SuperResolve);
    let task = TaskFlags {
        task: Some(order.task),
        level: order.level.or(degraded_blur).filter(|_| deblur),
        boundary: order.boundary.filter(|_| deblur),
        factor: shrink.then_some(order.factor.unwrap_or(USUAL_FACTOR)),
        ..TaskFlags::default()
    };
    let known = match &order.hole {
        Some(hole) if order.task == Task::Inpaint => {
            let mask = fitted(&hole.mask(picture), Shape { channels: 1, ..shape });
            Some(known(&mask, "the rectangle")?)
        }
        _ => None,
    };
    // A picture to be made larger is taken as it is.
    let seen = match order.task == Task::SuperResolve && !order.degrade {
        true => (Shape::new(picture.height, picture.width, picture.channels), to_unit(&picture.pixels)),
        false => (shape, fitted(picture, shape)),
    };
    let observation = task.observe(model, seen, known, order.degrade)?.observation;
    job.show(json!({ "name": "what was seen", "png": sheet(shape, observation.values()) }));
    let entry = Match::find(&model.path, &observation)?.entry();
    let spread = Spread::fitting(&observation)?;
    let section = &model.recipe.sample;
    let sampler = section.build()?;
    let restoration = Restoration {
        path: &model.path,
        prior: &model.prior,
        sampler: sampler.as_ref(),
        steps: order.steps,
        entry,
        spread: Some(&spread),
        batch: order.samples,
    };
    let total = (restoration.sampling()?.times.len() - 1) * sampler.evaluations();
    let mut done = 0;
    let mut counted = |xt: &[f64], t: f64| {
        if job.is_cancelled() {
            return Err(SamplerError::Denoiser("stopped".into()));
        }
        done += 1;
        job.update(done.min(total), total);
        inner.x0_hat(xt, t)
    };
    let seeds: Vec<u64> = (0..order.samples as u64).collect();
    let restored = restoration.run(&mut counted, &observation, &seeds, &mut |_, _| {})?;
    let largest = restored.deviation.iter().fold(1e-9f64, |all, one| all.max(*one));
    let deviation: Vec<f64> = restored.deviation.iter().map(|one| one / largest).collect();
    job.show(json!({ "name": "mean: the best guess", "png": sheet(shape, &restored.mean) }));
    job.show(json!({ "name": "where samples differ", "png": sheet(shape, &deviation) }));
    for (index, sample) in restored.samples.chunks_exact(shape.len()).enumerate() {
        job.show(json!({ "name": format!("sample {index}"), "png": sheet(shape, sample) }));
    }
    let begun = match entry {
        Entry::At { t, .. } => format!("entered at t = {t:.3}"),
        Entry::Beginning => "from the path's end".to_owned(),
    };
    if let Some((problem, remedy)) = poor_fit(observation.misfit(&restored.mean)?, false) {
        job.show(json!({ "text": format!("Warning: {problem}; {}", remedy.replace("--", "")) }));
    }
    job.show(json!({ "text": format!("{}; {begun}, noise {:.4}, {} in {total} evaluations", model.stage(), observation.sigma(), section.sampler) }));
    Ok(())
}

/// The picture as the model's images are: cut to their sides' ratio about its middle, resized, in their colours.
fn fitted(picture: &Picture, shape: Shape) -> Vec<f64> {
    let (width, height) = (picture.width, picture.height);
    let wide = width * shape.height > height * shape.width;
    let kept = match wide {
        true => ((height * shape.width / shape.height).max(1), height),
        false => (width, (width * shape.height / shape.width).max(1)),
    };
    let cut = picture.crop((width - kept.0) / 2, (height - kept.1) / 2, kept.0, kept.1);
    let cut = cut.unwrap_or_else(|| picture.clone()).with_channels(shape.channels);
    to_unit(&resize::bilinear(&cut, shape.width, shape.height).pixels)
}
