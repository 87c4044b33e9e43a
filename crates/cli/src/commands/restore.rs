//! `softdiff restore`: what a degraded picture may have been, several times.

mod observe;
pub(crate) mod task;
mod write;

use super::checkpoint::CheckpointFlag;
use super::device::DeviceFlag;
use super::pictures;
use super::seeds::Seeds;
use crate::diagnostics::{Failure, Outcome};
use crate::progress::Progress;
use clap::Args;
use serde_json::json;
use softdiff::model::batch_size;
use softdiff::recipe::Weights;
use softdiff::restore::{Entry, Match, Restoration, Spread};
use softdiff::train::numbers;
use std::path::PathBuf;
use std::time::Instant;

const EXAMPLE: &str = "\
Example: a blurred picture of one's own; its blur and noise are estimated from the picture
  softdiff restore runs/first blurred.png
  softdiff restore runs/first blurred.png --level 1.5 --noise 0.01 --seeds 0..16
  softdiff restore runs/first blurred.png --boundary zero

Example: other tasks with the same model; white pixels of the mask are to be filled in
  softdiff restore runs/first hole.png --mask mask.png
  softdiff restore runs/first small.png --task super-resolve
  softdiff restore runs/first grey.png --task colourise
  softdiff restore runs/first shaken.png --corruption custom --map kernel.json

Example: see how well it works on a clean picture, degraded first
  softdiff restore runs/first embedded:fashion-mnist --index 3 --degrade --level 2

The folder gets each sample, their mean (the best guess), their spread (white where they differ most), and all of it on one sheet.";

/// Restore a degraded picture with a trained model: deblur, denoise, inpaint, super-resolve, colourise, or undo any linear map.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Restore {
    /// A run's folder, one of its checkpoints, or an exported model.
    model: PathBuf,
    /// The picture, or any data source; of the size of the model's images, smaller to super-resolve.
    #[arg(value_name = "PICTURE")]
    picture: PathBuf,
    /// Which picture of a data source.
    #[arg(long, default_value_t = 0, value_name = "N")]
    index: usize,
    #[command(flatten)]
    task: task::TaskFlags,
    /// Degrade the picture first, as told, and compare with it afterwards.
    #[arg(long)]
    degrade: bool,
    /// The undegraded picture, to compare with.
    #[arg(long, value_name = "FILE", conflicts_with = "degrade")]
    truth: Option<PathBuf>,
    /// Which samples: 7, 0..8, 10..=19, or a list of these.
    #[arg(long, default_value = "0..8")]
    seeds: Seeds,
    /// Go back along the path without looking at the picture again; what was seen may then change.
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
    /// Runs the verb.
    pub fn run(self, json: bool) -> Outcome {
        if self.out.exists() && !self.out.is_dir() {
            let failure = Failure::new(format!("{} is a file, and the pictures need a folder", self.out.display()));
            return Err(failure.hint("give another --out, such as restored"));
        }
        let model = self.checkpoint.open(&self.model, self.weights)?;
        let (path, shape) = (&*model.path, model.path.shape());
        let mut section = model.recipe.with_sets(&self.set)?.sample;
        section.sampler = self.sampler.clone().unwrap_or(section.sampler);
        section.steps = self.steps.unwrap_or(section.steps);
        let sampler = section.build()?;
        let (picture, known) = (pictures::one(&self.picture, self.index)?, self.task.known(shape)?);
        let seen = self.task.observe(&model, picture, known, self.degrade)?;
        let truth = match (&self.truth, seen.truth) {
            (Some(file), _) => Some(task::fitting(file, 0, shape)?),
            (None, truth) => truth,
        };
        let observation = seen.observation;
        let (entry, mismatch) = match seen.time {
            Some(t) => (Entry::At { t, scale: 1.0 }, 0.0),
            None => {
                let found = Match::find(path, &observation)?;
                (found.entry(), found.mismatch)
            }
        };
        if self.free && entry == Entry::Beginning {
            let failure =
                Failure::new("this model's path never looks like the picture, so it cannot be entered with it");
            return Err(failure.hint("leave --free out, or train a model on that corruption"));
        }
        let device = self.device.open()?;
        let batch = self.batch.unwrap_or(batch_size::RESTORATION.on(&device)).clamp(1, self.seeds.0.len());
        let spread = Spread::fitting(&observation)?;
        let begun = Instant::now();
        let mut denoiser = model.denoiser(&device, batch, numbers(model.recipe.train.precision))?;
        let restoration = Restoration {
            path,
            prior: &model.prior,
            sampler: sampler.as_ref(),
            steps: section.steps,
            entry,
            spread: (!self.free).then_some(&spread),
            batch,
        };
        let progress = Progress::new("restoring", "samples");
        let mut tell = |done: usize, total: usize| progress.update(done, total);
        let restored = restoration.run(&mut denoiser, &observation, &self.seeds.0, &mut tell)?;
        drop(progress);
        let seconds = begun.elapsed().as_secs_f64();
        let steps = restoration.sampling()?.times.len() - 1;
        let files = write::files(&self.out, shape, &observation, &restored, truth.as_deref(), &self.seeds.0)?;
        let scores = truth.as_deref().map(|truth| write::scores(shape, &observation, &restored, truth)).transpose()?;
        let start = match entry {
            Entry::At { t, .. } => t,
            Entry::Beginning => 1.0,
        };
        let misfit = observation.misfit(&restored.mean)?;
        let warning = task::poor_fit(misfit, self.free);
        if json {
            let facts = json!({
                "model": model.name, "step": model.step, "checkpoint": model.checkpoint, "weights": model.weights.to_string(), "task": seen.task,
                "level": seen.level, "boundary": seen.boundary, "noise": observation.sigma(), "entered_at": start, "mismatch": mismatch,
                "sampler": section.sampler, "steps": steps, "samples": self.seeds.0.len(), "seconds": seconds,
                "misfit": misfit, "warning": warning.map(|(problem, remedy)| format!("{problem}; {remedy}")), "scores": scores, "files": files,
                "device": device.to_string(),
            });
            println!("{facts}");
            return Ok(());
        }
        let level = seen.level.map_or(String::new(), |level| format!(" of level {level:.3}"));
        let boundary = seen.boundary.map_or(String::new(), |edge| format!(", boundary {edge:?}").to_lowercase());
        eprintln!("{}{level}{boundary}, by {} at {}", seen.task, model.name, model.stage());
        eprintln!(
            "noise {:.4}{}",
            observation.sigma(),
            if seen.noise_estimated { ", estimated from the picture" } else { "" }
        );
        eprintln!("entered at t = {start:.3}, {} in {steps} steps, {seconds:.1} s on {device}", section.sampler);
        if let Some(scores) = scores {
            eprint!("{}", write::table(&scores));
        }
        if let Some((problem, remedy)) = warning {
            eprintln!("warning: {problem}");
            eprintln!("hint: {remedy}");
        }
        eprintln!("wrote {} pictures to {}; sheet.png has them all", files.len(), self.out.display());
        Ok(())
    }
}
