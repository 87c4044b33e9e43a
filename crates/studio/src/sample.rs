//! Sampling to look at: x_t and the predicted clean images, step by step, by several samplers from the same seeds.

use super::Studio;
use super::images::shown;
use super::jobs::Job;
use super::problem::HttpProblem;
use serde::Deserialize;
use serde_json::{Value, json};
use softdiff::corruption::Shape;
use softdiff::image::{Picture, from_unit, grid};
use softdiff::model::{Model, visible};
use softdiff::sampler::{Denoiser, Result as Sampled, SamplerError, Watched, names, sample_watched};
use std::cell::RefCell;

/// Samplers side by side, steps, and images at most.
const SAMPLERS: usize = 4;
const STEPS: usize = 1000;
const IMAGES: usize = 16;
/// Times that are shown of one sampler, fewer where images are large.
const FRAMES: usize = 60;
/// Bytes of all that is shown of one task, about.
const SHOWN: usize = 32 << 20;
/// Largest seed: those that JavaScript knows exactly.
const SEEDS: u64 = 1 << 53;

/// The fields of the form "Sample".
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SampleForm {
    model: String,
    samplers: Vec<String>,
    steps: usize,
    seed: u64,
    images: usize,
}

/// `POST /api/sample`: checks the form and queues the task; the answer has its identifier.
pub fn submit(studio: &Studio, body: &[u8]) -> Result<Value, HttpProblem> {
    let order: SampleForm = serde_json::from_slice(body)
        .map_err(|error| HttpProblem::refused(error.to_string(), "use the page's own form"))?;
    let range = |what: &str, value: usize, most: usize| match (1..=most).contains(&value) {
        true => Ok(()),
        false => Err(HttpProblem::refused(format!("{value} {what} cannot be had"), format!("give 1 to {most}"))),
    };
    range("samplers", order.samplers.len(), SAMPLERS)?;
    range("steps", order.steps, STEPS)?;
    range("images", order.images, IMAGES)?;
    if order.seed >= SEEDS {
        return Err(HttpProblem::refused(
            format!("seed {} is too large", order.seed),
            format!("give one below {SEEDS}"),
        ));
    }
    if !order.samplers.iter().all(|name| names().any(|known| known == name)) {
        return Err(HttpProblem::refused(
            "there is no such sampler",
            format!("give some of {}", names().collect::<Vec<_>>().join(", ")),
        ));
    }
    let (name, place) = studio.models.place(&order.model)?;
    let models = studio.models.clone();
    let title = format!("{} in {} steps with {name}", order.samplers.join(", "), order.steps);
    studio.jobs.submit(title, move |job| {
        let model = models.open(&place)?;
        job.show(json!({ "text": format!("{} at {}", model.name, model.stage()) }));
        let seeds: Vec<u64> = (0..order.images as u64).map(|index| order.seed + index).collect();
        let precision = model.recipe.train.precision;
        let guided = model.guided(model.recipe.sample.guidance).map_err(HttpProblem::failed)?;
        let mut denoiser = guided.denoiser(models.device()?, seeds.len(), precision).map_err(HttpProblem::failed)?;
        for (lane, name) in order.samplers.iter().enumerate() {
            let place = Lane { lane, lanes: order.samplers.len(), steps: order.steps };
            watch(job, &model, &mut denoiser, name, &seeds, place).map_err(HttpProblem::failed)?;
        }
        Ok(())
    })
}

#[derive(Clone, Copy)]
struct Lane {
    lane: usize,
    lanes: usize,
    steps: usize,
}

/// x_t of a step whose clean prediction is not there yet.
struct WaitingStep {
    t: f64,
    step: usize,
    xt: String,
}

fn watch(job: &Job, model: &Model, inner: &mut dyn Denoiser, name: &str, seeds: &[u64], at: Lane) -> Sampled<()> {
    let Lane { lane, lanes, steps } = at;
    let mut section = model.recipe.sample.clone();
    (section.sampler, section.steps) = (name.to_owned(), steps);
    let sampler = section.build()?;
    let sampling = section.sampling(&model.path)?;
    let (shape, seen) = (model.path.shape(), RefCell::new(None));
    // Two images each time, in base64.
    let size = 2 * lanes * seeds.len() * shape.len() * 4 / 3;
    let every = steps.div_ceil((SHOWN / size.max(1)).clamp(1, FRAMES));
    // Stops when the task does, and tells its first answer at each time that is shown.
    let tell = |x0_hat: &[f64]| {
        if job.is_cancelled() {
            return Err(SamplerError::Denoiser("stopped".into()));
        }
        if let Some(WaitingStep { t, step, xt }) = seen.take() {
            job.show(json!({ "lane": lane, "step": step, "t": t, "xt": xt, "x0_hat": sheet(shape, x0_hat) }));
        }
        Ok(())
    };
    let mut denoiser = Watched { inner, look: tell };
    let mut step = 0;
    let mut look = |t: f64, x: &[f64]| {
        job.update(lane * steps + step, lanes * steps);
        if step == steps {
            job.show(json!({ "lane": lane, "step": step, "t": t, "xt": sheet(shape, x), "x0_hat": sheet(shape, x) }));
        } else if step % every == 0 {
            let xt = sheet(shape, &visible(x, model.path.sigma(t)));
            *seen.borrow_mut() = Some(WaitingStep { t, step, xt });
        }
        step += 1;
    };
    sample_watched(&model.path, sampler.as_ref(), &mut denoiser, model.starts(seeds), seeds, &sampling, &mut look)?;
    Ok(())
}

/// Images in one grid, as PNG in base64.
pub fn sheet(shape: Shape, images: &[f64]) -> String {
    let Shape { height, width, channels } = shape;
    if images.len() == shape.len() {
        return shown(&Picture { width, height, channels, pixels: from_unit(images) });
    }
    let columns = grid::square_columns(images.len() / shape.len());
    shown(&grid::compose(width, height, channels, &from_unit(images), columns, 1))
}
