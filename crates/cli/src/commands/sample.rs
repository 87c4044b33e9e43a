//! `softdiff sample`: images from a trained model.

pub(super) mod film;
pub(super) mod write;

use super::device::DeviceFlag;
use super::seeds::Seeds;
use crate::diagnostics::{Failure, Outcome};
use crate::progress::Progress;
use clap::Args;
use serde_json::json;
use softdiff::engine::Device;
use softdiff::metrics::Made;
use softdiff::model::{Generator, Model};
use softdiff::recipe::Weights;
use softdiff::sampler::Ending;
use softdiff::train::numbers;
use std::path::PathBuf;
use std::time::Instant;

const EXAMPLE: &str = "\
Example: 64 images as a grid, then the same ones by another sampler
  softdiff sample runs/first
  softdiff sample runs/first --sampler heun --steps 40 --out heun.png

Example: 1000 images as files, as one npz, and eight on their way
  softdiff sample runs/first --seeds 0..1000 --out images/
  softdiff sample runs/first --seeds 0..1000 --out images.npz
  softdiff sample runs/first --seeds 0..8 --means means.png --film film.gif

Image i depends on the model and seed i alone, not on what else is made.";

/// Make images with a trained model.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Sample {
    /// A run's folder, one of its checkpoints, an exported model, or imported weights (.safetensors).
    model: PathBuf,
    /// Which images: 7, 0..64, 10..=19, or a list of these.
    #[arg(long, default_value = "0..64")]
    seeds: Seeds,
    /// The sampler, if not the recipe's.
    #[arg(long, value_name = "NAME")]
    sampler: Option<String>,
    /// Its steps, if not the recipe's.
    #[arg(long)]
    steps: Option<usize>,
    /// What the last step does: denoised, stepped or at-path-start; if not the recipe's.
    #[arg(long)]
    ending: Option<String>,
    /// Change a key of the recipe's [sample], such as sample.churn_rate=2.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Which weights: ema-0.999 and the like, or raw; if not the recipe's.
    #[arg(long)]
    weights: Option<Weights>,
    /// Images at a time.
    #[arg(long)]
    batch: Option<usize>,
    /// Where to: a .png (grid), .npz or .zip, or a folder (one file per seed).
    #[arg(long, default_value = "samples.png", value_name = "FILE")]
    out: PathBuf,
    /// A picture of the predicted clean image over time, one row per seed.
    #[arg(long, value_name = "FILE")]
    means: Option<PathBuf>,
    /// A film of the first eight seeds, .gif or .png: x_t to the left, the predicted clean image to the right.
    #[arg(long, value_name = "FILE")]
    film: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceFlag,
}

impl Sample {
    /// Runs the verb.
    pub fn run(self, json: bool) -> Outcome {
        let format = self.film.as_deref().map(film::format).transpose()?;
        let model = Model::open(&self.model, self.weights)?;
        let mut section = model.recipe.with_sets(&self.set)?.sample;
        section.sampler = self.sampler.clone().unwrap_or(section.sampler);
        section.steps = self.steps.unwrap_or(section.steps);
        if let Some(ending) = &self.ending {
            section.ending = match ending.as_str() {
                "denoised" => Ending::Denoised,
                "stepped" => Ending::Stepped,
                "at-path-start" => Ending::AtPathStart,
                other => {
                    let failure = Failure::new(format!("there is no ending {other:?}"));
                    return Err(failure.hint("give denoised, stepped or at-path-start"));
                }
            };
        }
        let (sampler, sampling) = (section.build()?, section.sampling()?);
        let device = self.device.open()?;
        let batch = self.batch.unwrap_or(if device.is_gpu() { 256 } else { 32 }).clamp(1, self.seeds.0.len());
        let numbers = numbers(model.recipe.train.precision);
        let begun = Instant::now();
        let progress = Progress::new("sampling", "images");
        let mut generator = Generator::new(&device, &model, sampler.as_ref(), &sampling, batch, numbers)?;
        let images = generator.images(&self.seeds.0, &mut |done, total| progress.update(done, total))?;
        drop(progress);
        let seconds = begun.elapsed().as_secs_f64();
        let made = Made {
            model: model.name.clone(),
            step: model.step,
            weights: model.weights.to_string(),
            sampler: section.sampler.clone(),
            steps: section.steps,
            evaluations: section.evaluations()?,
            seeds: self.seeds.to_string(),
            set: self.set.iter().cloned().chain(self.ending.iter().map(|e| format!("sample.ending={e}"))).collect(),
        };
        write::images(&self.out, model.path.shape(), &images, &self.seeds.0, &made)?;
        let mut written = vec![self.out.display().to_string()];
        if self.means.is_some() || self.film.is_some() {
            let shown = film::watch(&device, &model, sampler.as_ref(), &sampling, &self.seeds.0, numbers)?;
            if let Some(file) = &self.means {
                shown.write_means(file)?;
                written.push(file.display().to_string());
            }
            if let Some((file, format)) = self.film.as_deref().zip(format) {
                shown.write_film(file, format)?;
                written.push(file.display().to_string());
            }
        }
        report(&model, &section.sampler, section.steps, &device, self.seeds.0.len(), seconds, &written, json);
        Ok(())
    }
}

#[allow(clippy::too_many_arguments)]
fn report(
    model: &Model,
    sampler: &str,
    steps: usize,
    device: &Device,
    images: usize,
    seconds: f64,
    written: &[String],
    json: bool,
) {
    if json {
        let facts = json!({
            "model": model.name, "step": model.step, "weights": model.weights.to_string(), "sampler": sampler,
            "steps": steps, "images": images, "seconds": seconds, "device": device.to_string(), "files": written,
            "starts_from_training_images": model.prior.leaks_training_images(),
        });
        println!("{facts}");
        return;
    }
    if model.prior.leaks_training_images() {
        eprintln!("warning: this model's prior starts from corrupted training images; its samples are not all its own");
    }
    eprintln!(
        "{images} images of {} at step {} ({}), {sampler} in {steps} steps, {seconds:.1} s on {device}",
        model.name, model.step, model.weights
    );
    written.iter().for_each(|file| eprintln!("wrote {file}"));
}
