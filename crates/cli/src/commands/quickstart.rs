//! `softdiff quickstart`: the whole of it in small, without arguments.

use super::device::DeviceFlag;
use super::{report, train};
use crate::atomic_file::save_in_folder;
use crate::diagnostics::Outcome;
use clap::Args;
use serde_json::json;
use softdiff::model::CheckpointChoice;
use softdiff::recipe::Recipe;
use softdiff::run::{RunFolder, StopRequest};
use std::path::PathBuf;
use std::time::Instant;

const EXAMPLE: &str = "\
Example: everything, then more images of the model it made
  softdiff quickstart
  softdiff sample runs/quickstart --seeds 100..164

Stopped half-way, the same command goes on where it was.";

/// Run everything once on built-in data: schedule, prior, training, samples and a report; takes a few minutes.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Quickstart {
    /// The run's folder.
    #[arg(long, default_value = "runs/quickstart", value_name = "RUN")]
    out: PathBuf,
    /// Change a key of the recipe, such as train.steps=300.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Images to sample for the report.
    #[arg(long, default_value_t = 256, value_name = "COUNT")]
    samples: usize,
    #[command(flatten)]
    device: DeviceFlag,
}

impl Quickstart {
    pub fn run(self, json: bool, stop: &StopRequest) -> Outcome {
        let begun = Instant::now();
        let recipe = Recipe::open("quickstart", &self.set)?;
        let device = self.device.open()?;
        let run = self.out.display();
        if !json {
            eprintln!("quickstart: a small diffusion of images of clothes, from blur to sharp, into {run}");
        }
        let finished = train::perform(recipe, &self.out, CheckpointChoice::Usual, &device, stop, json)?;
        stop.check()?;
        let folder = RunFolder::new(&self.out);
        let page = report::make(&folder, &device, self.samples)?;
        let grid = folder.samples().join("samples.png");
        if let Some(samples) = page.figures().find(|figure| figure.name == "samples") {
            save_in_folder(&grid, &samples.file().1)?;
        }
        save_in_folder(&folder.report(), page.to_html().as_bytes())?;
        let seconds = begun.elapsed().as_secs_f64();
        if json {
            let facts = json!({
                "run": run.to_string(), "step": finished.step, "seconds": seconds,
                "report": folder.report().display().to_string(), "samples": grid.display().to_string(),
            });
            println!("{facts}");
            return Ok(());
        }
        eprintln!("done in {seconds:.0} s; look at");
        eprintln!("  {}   the whole story on one page", folder.report().display());
        eprintln!("  {}   samples", grid.display());
        eprintln!("next: softdiff sample {run} --seeds 100..164; softdiff recipe list");
        Ok(())
    }
}
