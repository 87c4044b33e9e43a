//! `softdiff restore`: what a degraded image may have been, several times.

mod task;
mod write;

use super::checkpoint::CheckpointFlag;
use super::device::DeviceFlag;
use super::images;
use super::seeds::Seeds;
use crate::diagnostics::{Failure, Outcome};
use crate::progress::Progress;
use clap::Args;
use serde_json::json;
use softdiff::corruption::Shape;
use softdiff::recipe::Weights;
use softdiff::restore::{self, Restoration};
use std::path::PathBuf;
use std::time::Instant;

const EXAMPLE: &str = "\
Example: a blurred image of one's own; its blur and noise are estimated from the image
  softdiff restore runs/first blurred.png
  softdiff restore runs/first blurred.png --level 1.5 --noise 0.01 --seeds 0..16
  softdiff restore runs/first blurred.png --boundary zero

Example: other tasks with the same model; white pixels of the mask are to be filled in
  softdiff restore runs/first hole.png --mask mask.png
  softdiff restore runs/first small.png --task super-resolve
  softdiff restore runs/first grey.png --task colourise
  softdiff restore runs/first shaken.png --corruption custom --map kernel.json

Example: see how well it works on a clean image, degraded first
  softdiff restore runs/first embedded:fashion-mnist --index 3 --degrade --level 2

The folder gets each sample, their mean (the best guess), their spread (white where they differ most), and all of it on one sheet.";

/// Restore a degraded image with a trained model: deblur, denoise, inpaint, super-resolve, colourise, or undo any linear map.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Restore {
    /// A run's folder, one of its checkpoints, or an exported model.
    model: PathBuf,
    /// The image, or any data source; of the size of the model's images, smaller to super-resolve.
    #[arg(value_name = "IMAGE")]
    picture: PathBuf,
    /// Which image of a data source.
    #[arg(long, default_value_t = 0, value_name = "N")]
    index: usize,
    #[command(flatten)]
    task: task::TaskFlags,
    /// Degrade the image first, as the other flags say, and compare with it afterwards.
    #[arg(long)]
    degrade: bool,
    /// The undegraded image, to compare with.
    #[arg(long, value_name = "FILE", conflicts_with = "degrade")]
    truth: Option<PathBuf>,
    /// Which samples: 7, 0..8, 10..=19, or a list of these.
    #[arg(long, default_value = "0..8")]
    seeds: Seeds,
    /// Go back along the path without looking at the image again; what was seen may then change.
    #[arg(long)]
    free: bool,
    /// The sampler, if not the recipe's.
    #[arg(long, value_name = "NAME")]
    sampler: Option<String>,
    /// Steps of the whole path, if not the recipe's; entered on the way, it takes its share.
    #[arg(long)]
    steps: Option<usize>,
    /// Change a key of the recipe's [sample], such as sample.churn_rate=2.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    checkpoint: CheckpointFlag,
    /// Which weights: ema-0.999 and the like, or raw; if not the recipe's.
    #[arg(long)]
    weights: Option<Weights>,
    /// Samples at a time.
    #[arg(long)]
    batch: Option<usize>,
    /// The folder to write to.
    #[arg(long, default_value = "restored", value_name = "FOLDER")]
    out: PathBuf,
    #[command(flatten)]
    device: DeviceFlag,
}

impl Restore {
    pub fn run(self, json: bool) -> Outcome {
        if self.out.exists() && !self.out.is_dir() {
            let failure = Failure::new(format!("{} is a file, and the images need a folder", self.out.display()));
            return Err(failure.hint("give another --out, such as restored"));
        }
        let model = self.checkpoint.open(&self.model, self.weights)?;
        let mut section = model.recipe.with_sets(&self.set)?.sample;
        section.sampler = self.sampler.clone().unwrap_or(section.sampler);
        section.steps = self.steps.unwrap_or(section.steps);
        let picture = images::one(&self.picture, self.index)?;
        let found = Shape::new(picture.height, picture.width, picture.channels);
        let task = self.task.task(&model, found, self.degrade)?;
        let sampler = section.sampler.clone();
        let restoration = Restoration::new(&model)
            .task(task)
            .noise(self.task.noise)
            .sampling(section)
            .seeds(self.seeds.0.iter().copied())
            .unconditioned(self.free)
            .batch(self.batch);
        let observed = if self.degrade { restoration.degrade(&picture)? } else { restoration.observe(&picture)? };
        let truth = match &self.truth {
            Some(file) => Some(restore::fitted(&images::one(file, 0)?, observed.path.shape())?),
            None => observed.truth.clone(),
        };
        let device = self.device.open()?;
        let begun = Instant::now();
        let progress = Progress::new("restoring", "samples");
        let mut update = |done: usize, total: usize| progress.update(done, total);
        let restored = restoration.device(&device).restore(observed, &mut update)?;
        drop(progress);
        let seconds = begun.elapsed().as_secs_f64();
        let files = write::files(&self.out, &restored, truth.as_deref(), &self.seeds.0)?;
        let scores = truth.as_deref().map(|truth| restored.scores(truth)).transpose()?;
        let (warning, steps, seen) = (restored.warning(), restored.steps, &restored.observed);
        let (start, noise) = (seen.entry.time(), seen.observation.sigma());
        if json {
            let facts = json!({
                "model": model.name, "step": model.step, "checkpoint": model.checkpoint, "weights": model.weights.to_string(), "task": seen.task,
                "level": seen.level, "boundary": seen.boundary, "noise": noise, "entered_at": start, "mismatch": seen.mismatch,
                "sampler": sampler, "steps": steps, "samples": self.seeds.0.len(), "seconds": seconds,
                "misfit": restored.misfit, "warning": warning.map(|(problem, remedy)| format!("{problem}; {remedy}")), "scores": scores, "files": files,
                "device": device.to_string(),
            });
            println!("{facts}");
            return Ok(());
        }
        let level = seen.level.map_or(String::new(), |level| format!(" of level {level:.3}"));
        let boundary = seen.boundary.map_or(String::new(), |edge| format!(", boundary {edge:?}").to_lowercase());
        eprintln!("{}{level}{boundary}, by {} at {}", seen.task, model.name, model.stage());
        eprintln!("noise {noise:.4}{}", if seen.noise_estimated { ", estimated from the image" } else { "" });
        eprintln!("entered at t = {start:.3}, {sampler} in {steps} steps, {seconds:.1} s on {device}");
        if let Some(scores) = scores {
            eprint!("{}", write::table(&scores));
        }
        if let Some((problem, remedy)) = warning {
            eprintln!("warning: {problem}");
            eprintln!("hint: {remedy}");
        }
        eprintln!("wrote {} images to {}; sheet.png has them all", files.len(), self.out.display());
        Ok(())
    }
}
