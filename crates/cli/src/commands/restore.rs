//! `softdiff restore`: what a degraded image may have been, several times.

mod kernel;
mod mask;
mod model;
mod one_size;
mod outputs;
mod photographs;
mod preview;
mod read;
mod task;
mod write;

use super::checkpoint::CheckpointFlag;
use super::device::DeviceFlag;
use super::seeds::Seeds;
use super::steps::steps;
use crate::diagnostics::{Failure, Outcome};
use clap::Args;
pub use model::pictures_in;
use photographs::{Photographs, Quality};
use softdiff::model::Model;
use softdiff::recipe::{SampleSection, Weights};
use std::num::NonZeroUsize;
use std::path::PathBuf;

const EXAMPLE: &str = "\
Example: photographs of any size, with the model for photographs; blur and noise are estimated from each
  softdiff restore photo.jpg
  softdiff restore photo.jpg --quality best --compare --out restored.png
  softdiff restore small.jpg --task super-resolve --factor 2
  softdiff restore compressed.jpg --task jpeg
  softdiff restore shaken.jpg --corruption motion --level 9 --angle 30
  softdiff restore blurred.jpg --kernel kernel.png
  softdiff restore holidays/ --task denoise --out denoised

Example: a blurred image of the size of a model's; its blur and noise are estimated from the image
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

A photograph gives NAME-restored.png with the metadata of the original; nothing but its preview is replaced without --force. With a model of one size the folder gets each sample, their mean (the best guess), their spread (white where they differ most), and all of it on one sheet.

Exit codes: 0 done, 1 failed, 75 stopped by SIGTERM or SIGHUP, 130 by Ctrl-C. Photographs finished before are written; --skip-existing goes on.";

/// Restore a degraded image with a trained model: deblur, denoise, inpaint, super-resolve, colourise, or undo any linear map.
#[derive(Args)]
#[command(after_help = EXAMPLE, override_usage = "softdiff restore [OPTIONS] [MODEL] <IMAGE>...")]
pub struct Restore {
    /// A model (a run's folder, one of its checkpoints, or an exported model) and the image, or any data source. Without a
    /// model, the one for photographs, which takes images of up to 8192 pixels a side, several of them, and folders.
    #[arg(value_name = "IMAGE", required = true)]
    arguments: Vec<PathBuf>,
    /// Which image of a data source [default: 0].
    #[arg(long, value_name = "N")]
    index: Option<usize>,
    #[command(flatten)]
    task: task::TaskFlags,
    /// Degrade the image first, as the other flags say, and compare with it afterwards.
    #[arg(long)]
    degrade: bool,
    /// The undegraded image, to compare with.
    #[arg(long, value_name = "FILE", conflicts_with = "degrade")]
    truth: Option<PathBuf>,
    /// How much work a photograph is worth [default: default].
    #[arg(long, value_enum)]
    quality: Option<Quality>,
    /// Which samples: 7, 0..8, 10..=19, or a list of these [default: 0..8; of photographs none,
    /// with --samples or --spread 0..4]. Those of photographs are written, unless --spread alone asks for them.
    #[arg(long)]
    seeds: Option<Seeds>,
    /// Go back along the path without looking at the image again; what was seen may then change.
    #[arg(long)]
    free: bool,
    /// The sampler, if not churn-rate, or with --free the recipe's.
    #[arg(long, value_name = "NAME")]
    sampler: Option<String>,
    /// Steps of the whole path, if not the recipe's or those of --quality; entered on the way, it takes its share.
    #[arg(long, value_parser = steps())]
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
    batch: Option<NonZeroUsize>,
    /// The folder to write to [default: restored]; for photographs a folder or a .png file [default: NAME-restored.png].
    #[arg(long, value_name = "FILE|FOLDER")]
    out: Option<PathBuf>,
    /// Write each sample of a photograph too, not only their mean.
    #[arg(long)]
    samples: bool,
    /// Write where the samples of a photograph differ too.
    #[arg(long)]
    spread: bool,
    /// Write a photograph before and after side by side too.
    #[arg(long)]
    compare: bool,
    /// Replace files that exist.
    #[arg(long)]
    force: bool,
    /// Leave out photographs whose restored file exists, such as those that an interrupted command has finished.
    #[arg(long, conflicts_with = "force")]
    skip_existing: bool,
    #[command(flatten)]
    device: DeviceFlag,
}

impl Restore {
    pub fn run(self, json: bool) -> Outcome {
        let (place, images) = model::split(&self.arguments)?;
        let model = self.checkpoint.open(&place, self.weights)?;
        match model.takes_any_size() {
            true => Photographs::new(&self, &model)?.run(images, json),
            false => self.of_one_size(&model, images, json),
        }
    }

    /// The sampler of restorations, as the flags change it.
    fn section(&self, model: &Model) -> Result<SampleSection, Failure> {
        let mut section = model.recipe.restoring_with(self.free, &self.set)?;
        section.sampler = self.sampler.clone().unwrap_or(section.sampler);
        section.steps = self.steps.unwrap_or(section.steps);
        Ok(section)
    }
}
