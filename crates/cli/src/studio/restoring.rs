//! Restoring an uploaded picture with a model: samples, their mean, and where they differ.

use super::Studio;
use super::http::{Request, Response};
use super::jobs::Job;
use super::sampling::sheet;
use serde::Deserialize;
use serde_json::{Value, json};
use softdiff::corruption::{Boundary, LinearMap, Shape};
use softdiff::image::{Picture, resize};
use softdiff::model::{Model, to_bytes};
use softdiff::random::Stream;
use softdiff::recipe::CorruptionSection;
use softdiff::restore::{
    Entry, Match, Observation, Restoration, Result as Restoring, Spread, blur_deviation, noise_deviation,
};
use softdiff::sampler::{Denoiser, SamplerError};
use softdiff::train::numbers;

/// Samples and steps at most.
const SAMPLES: usize = 8;
const STEPS: usize = 1000;
/// Noise of a picture that is degraded here to be denoised.
const USUAL_NOISE: f64 = 0.1;
/// Blur of a picture that is degraded here to be deblurred, in pixels.
const USUAL_BLUR: f64 = 1.5;

/// What the page asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    model: String,
    picture: String,
    task: Task,
    /// Pixels of blur; told from the picture if not given.
    level: Option<f64>,
    /// Degrade the picture first.
    degrade: bool,
    samples: usize,
    steps: usize,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Task {
    Deblur,
    Denoise,
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
        let numbers = numbers(model.recipe.train.precision);
        let device = models.device()?;
        let mut denoiser = model.denoiser(device, order.samples, numbers).map_err(Response::failed)?;
        restore(job, &model, &mut denoiser, &picture, &order).map_err(Response::failed)
    })
}

fn restore(job: &Job, model: &Model, inner: &mut dyn Denoiser, picture: &Picture, order: &Order) -> Restoring<()> {
    let shape = model.path.shape();
    let observation = observe(model, &fitted(picture, shape), order)?;
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
    job.show(json!({ "text": format!("{begun}, noise {:.4}, {} in {total} evaluations", observation.sigma(), section.sampler) }));
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
    resize::bilinear(&cut, shape.width, shape.height).pixels.iter().map(|&b| f64::from(b) / 255.0).collect()
}

/// What is known of the picture, degraded here first if so asked.
fn observe(model: &Model, values: &[f64], order: &Order) -> Restoring<Observation> {
    let shape = model.path.shape();
    let noise = match (order.degrade, order.task) {
        (true, Task::Denoise) => USUAL_NOISE,
        (true, Task::Deblur) => 0.0,
        (false, _) => noise_deviation(shape, values)?,
    };
    let map = match order.task {
        Task::Denoise => LinearMap::Identity,
        Task::Deblur => {
            let level = match (order.level, order.degrade) {
                (Some(level), _) => level,
                (None, true) => USUAL_BLUR,
                (None, false) => blur_deviation(shape, values, noise)?,
            };
            let largest = Some(level.max(f64::MIN_POSITIVE));
            let section = match model.recipe.path.corruption() {
                Some(CorruptionSection::Blur { boundary, .. }) => {
                    CorruptionSection::Blur { largest, boundary: *boundary }
                }
                Some(CorruptionSection::Heat { floor, .. }) => CorruptionSection::Heat { largest, floor: *floor },
                _ => CorruptionSection::Blur { largest, boundary: Boundary::Reflect },
            };
            section.build(shape)?.at(level)?
        }
    };
    if !order.degrade {
        return Observation::new(shape, map, noise, values.to_vec());
    }
    let eta = Stream::new(0, "noise of a degraded picture").normals(values.len());
    let clean = map.apply(shape, values)?;
    let noisy: Vec<f64> = clean.iter().zip(&eta).map(|(y, e)| y + noise * e).collect();
    // As good as a file of 8 bits could be.
    let stored = to_bytes(&noisy).iter().map(|&b| f64::from(b) / 255.0).collect();
    Observation::new(shape, map, noise, stored)
}
