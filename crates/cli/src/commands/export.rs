//! `softdiff export`: a trained model as a folder of its own.

use crate::diagnostics::Outcome;
use clap::{Args, ValueEnum};
use serde_json::json;
use softdiff::model::Model;
use softdiff::recipe::Weights;
use std::path::PathBuf;

const EXAMPLE: &str = "\
Example: the moving average of a run in half the space, then images of it
  softdiff export runs/first --out models/first --precision bf16
  softdiff sample models/first";

/// Write a model as a folder: weights (safetensors), recipe, schedule, prior, card, and hashes of all of them.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Export {
    /// A run's folder, one of its checkpoints, or an exported model.
    model: PathBuf,
    /// The folder to write.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// How to store the weights.
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    precision: Precision,
    /// Which weights: ema-0.999 and the like, or raw; if not those the recipe samples with.
    #[arg(long)]
    weights: Option<Weights>,
}

/// How weights are stored.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Precision {
    /// As they are.
    F32,
    /// Rounded to eight bits of mantissa, half the size.
    Bf16,
}

impl Export {
    /// Runs the verb.
    pub fn run(self, json: bool) -> Outcome {
        let model = Model::open(&self.model, self.weights)?;
        let manifest = model.export(&self.out, self.precision == Precision::Bf16)?;
        let bytes: u64 = manifest.files.values().map(|file| file.bytes).sum();
        if json {
            println!("{}", json!({ "folder": self.out.display().to_string(), "bytes": bytes, "manifest": manifest }));
            return Ok(());
        }
        let megabytes = bytes as f64 / 1e6;
        eprintln!(
            "{}: {} at step {} ({}), {} weights as {}, {megabytes:.1} MB",
            self.out.display(),
            manifest.name,
            manifest.step,
            manifest.weights,
            manifest.parameters,
            manifest.precision
        );
        eprintln!("next: softdiff sample {}", self.out.display());
        Ok(())
    }
}
