//! `softdiff export`: a trained model as a folder of its own, and a run's records for other programs.

use super::checkpoint::CheckpointFlag;
use crate::atomic_file::{save, unwritable};
use crate::diagnostics::{Failure, Outcome};
use clap::{Args, ValueEnum};
use serde_json::json;
use softdiff::history::{History, evaluations_csv, event_file_name, metrics_csv, steps_csv, tensorboard};
use softdiff::metrics::StoredEvaluations;
use softdiff::model::{Model, ModelManifest};
use softdiff::recipe::Weights;
use softdiff::run::RunFolder;
use std::path::{Path, PathBuf};

const EXAMPLE: &str = "\
Example: the moving average of a run in half the space, then images of it
  softdiff export runs/first --out models/first --precision bf16
  softdiff export runs/first --out models/last --checkpoint last
  softdiff sample models/first

Example: an average of another width, made from the checkpoints that were kept (checkpoint.keep_every)
  softdiff export runs/first --weights posthoc-0.1 --out models/wide

Example: what happened in a run, finished or not, for TensorBoard and as tables (steps.csv, evaluations.csv, metrics.csv)
  softdiff export runs/first --tensorboard logs/first
  softdiff export runs/first --csv tables/";

/// Write a model as a folder (weights, recipe, schedule, prior, card, hashes), or a run's records for other programs.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Export {
    /// A run's folder, one of its checkpoints, or an exported model.
    model: PathBuf,
    /// The folder to write the model to.
    #[arg(long, value_name = "FOLDER", required_unless_present_any = ["tensorboard", "csv"])]
    out: Option<PathBuf>,
    /// Write a run's losses, rates, norms, metrics and previews to this folder, for TensorBoard.
    #[arg(long, value_name = "FOLDER")]
    tensorboard: Option<PathBuf>,
    /// Write a run's steps, evaluations and kept metrics to this folder, as tables.
    #[arg(long, value_name = "FOLDER")]
    csv: Option<PathBuf>,
    /// How to store the weights.
    #[arg(long, value_enum, default_value_t = StoredPrecision::F32)]
    precision: StoredPrecision,
    #[command(flatten)]
    checkpoint: CheckpointFlag,
    /// Which weights: ema-0.999 and the like, raw, or posthoc-0.05 and other widths; if not those the recipe samples with.
    #[arg(long)]
    weights: Option<Weights>,
}

/// How weights are stored.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StoredPrecision {
    /// As they are.
    F32,
    /// Rounded to eight bits of mantissa, half the size.
    Bf16,
}

impl Export {
    pub fn run(self, json: bool) -> Outcome {
        let mut facts = json!({});
        if self.tensorboard.is_some() || self.csv.is_some() {
            let files = self.records()?;
            if !json {
                files.iter().for_each(|file| eprintln!("wrote {file}"));
            }
            facts["files"] = files.into();
        }
        if let Some(out) = &self.out {
            let model = self.checkpoint.open(&self.model, self.weights)?;
            let manifest = model.export(out, self.precision == StoredPrecision::Bf16)?;
            let bytes: u64 = manifest.files.values().map(|file| file.bytes).sum();
            if !json {
                say(out, &model, &manifest, bytes);
            }
            facts["folder"] = out.display().to_string().into();
            facts["bytes"] = bytes.into();
            facts["checkpoint"] = json!(model.checkpoint);
            facts["manifest"] = json!(manifest);
        }
        if json {
            println!("{facts}");
        }
        Ok(())
    }

    /// Writes what happened in the run; gives the names of the files.
    fn records(&self) -> Result<Vec<String>, Failure> {
        let folder = RunFolder::new(&self.model);
        if !folder.events().is_file() {
            let failure = Failure::new(format!("{} is no run: it has no events.jsonl", self.model.display()));
            return Err(failure.hint("give the folder that softdiff train wrote"));
        }
        let history = History::read(&folder)?;
        let mut files = Vec::new();
        if let Some(to) = &self.tensorboard {
            files.push((to.join(event_file_name(&history)), tensorboard(&history)));
        }
        if let Some(to) = &self.csv {
            files.push((to.join("steps.csv"), steps_csv(&history).into_bytes()));
            files.push((to.join("evaluations.csv"), evaluations_csv(&history).into_bytes()));
            files.push((to.join("metrics.csv"), metrics_csv(&StoredEvaluations::read(&folder)).into_bytes()));
        }
        for (path, bytes) in &files {
            let folder = path.parent().unwrap_or(path);
            std::fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
            save(path, bytes)?;
        }
        Ok(files.iter().map(|(path, _)| path.display().to_string()).collect())
    }
}

fn say(out: &Path, model: &Model, manifest: &ModelManifest, bytes: u64) {
    let megabytes = bytes as f64 / 1e6;
    eprintln!(
        "{}: {} at {} ({}), {} weights as {}, {megabytes:.1} MB",
        out.display(),
        manifest.name,
        model.stage(),
        manifest.weights,
        manifest.parameters,
        manifest.precision
    );
    eprintln!("next: softdiff sample {}", out.display());
}
