//! `softdiff export`: a trained model as a folder of its own, and a run's records for other programs.

use super::checkpoint::CheckpointFlag;
use crate::atomic_file::{save, unwritable};
use crate::diagnostics::{Failure, Outcome};
use clap::{ArgGroup, Args, ValueEnum};
use serde_json::{Value, json};
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

Example: the weights for PyTorch, under the names of score_sde_pytorch; softdiff import reads them again
  softdiff export runs/first --format score-sde --out first.pth
  softdiff export models/cifar10-small --format score-sde --out cifar10.safetensors

Example: an average of another width, made from the checkpoints that were kept (checkpoint.keep_every)
  softdiff export runs/first --weights posthoc-0.1 --out models/wide

Example: a model with a weaker one that guides its samples
  softdiff export runs/first --guide runs/weaker --set sample.guidance=1.5 --out models/guided

Example: what happened in a run, finished or not, for TensorBoard and as tables (steps.csv, evaluations.csv, metrics.csv)
  softdiff export runs/first --tensorboard logs/first
  softdiff export runs/first --csv tables/";

/// Write a model as a folder (weights, recipe, schedule, prior, card, hashes), or a run's records for other programs.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
#[command(group = ArgGroup::new("what").args(["out", "tensorboard", "csv"]).required(true).multiple(true))]
pub struct Export {
    /// A run's folder, one of its checkpoints, or an exported model.
    model: PathBuf,
    /// The folder to write the model to; with --format score-sde a file, .pth or .safetensors.
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// What to write: a model's folder, or its weights for PyTorch.
    #[arg(long, value_enum, default_value_t = ExportFormat::Softdiff, requires = "out")]
    format: ExportFormat,
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
    /// A weaker model of the same path to guide samples by, to be written into the folder too.
    #[arg(long, value_name = "MODEL", requires = "out")]
    guide: Option<PathBuf>,
    /// Change a key of the recipe's [sample] in the folder, such as sample.guidance=1.5.
    #[arg(long, value_name = "KEY=VALUE", requires = "out")]
    set: Vec<String>,
    /// Replace the model in a folder that is not empty, or the file if it exists.
    #[arg(long, requires = "out")]
    force: bool,
}

/// What is written.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// A folder with all that sampling needs.
    Softdiff,
    /// The weights alone in f32, under score_sde_pytorch's names and with convolutions as [out, in, rows, columns].
    ScoreSde,
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
        if let Some(out) = &self.out {
            self.check_out(out)?;
        }
        if self.tensorboard.is_some() || self.csv.is_some() {
            let files = self.records()?;
            if !json {
                files.iter().for_each(|file| eprintln!("wrote {file}"));
            }
            facts["files"] = files.into();
        }
        if let (Some(out), ExportFormat::ScoreSde) = (&self.out, self.format) {
            self.score_sde(out, json, &mut facts)?;
        } else if let Some(out) = &self.out {
            let mut model = self.checkpoint.open(&self.model, self.weights)?;
            model.recipe.sample = model.recipe.sample_with(&self.set)?;
            if let Some(guide) = &self.guide {
                if model.recipe.sample.guidance == 1.0 {
                    let failure = Failure::new("a guide changes nothing at sample.guidance = 1");
                    return Err(failure.hint("add --set sample.guidance=1.5 or so"));
                }
                model = model.with_guide(Model::open(guide, None)?)?;
            }
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

    /// Refuses to replace what is there, unless by --force, before anything is read or written.
    fn check_out(&self, out: &Path) -> Outcome {
        let problem = match self.format {
            ExportFormat::Softdiff if std::fs::read_dir(out).is_ok_and(|mut files| files.next().is_some()) => {
                "is not empty"
            }
            ExportFormat::ScoreSde if out.symlink_metadata().is_ok() => "exists already",
            _ => return Ok(()),
        };
        if self.force {
            return Ok(());
        }
        let failure = Failure::new(format!("{} {problem}", out.display()));
        Err(failure.hint("choose another --out, or add --force to replace it"))
    }

    /// Writes the weights under score_sde's names.
    fn score_sde(&self, out: &Path, json: bool, facts: &mut Value) -> Outcome {
        if self.precision == StoredPrecision::Bf16 {
            let failure = Failure::new("--format score-sde stores weights as f32 only");
            return Err(failure.hint("leave --precision out"));
        }
        if self.guide.is_some() || !self.set.is_empty() {
            let failure = Failure::new("--format score-sde stores weights alone: --guide and --set have no effect");
            return Err(failure.hint("leave them out"));
        }
        let model = self.checkpoint.open(&self.model, self.weights)?;
        let weights = model.score_sde_weights()?;
        weights.write(out)?;
        let numbers: usize = weights.tensors.iter().map(|(_, tensor)| tensor.data.len()).sum();
        if !json {
            let (out, stage) = (out.display(), model.stage());
            eprintln!(
                "{out}: {} at {stage} ({}), {} tensors, {numbers} weights",
                model.name,
                model.weights,
                weights.tensors.len()
            );
            weights.settings.iter().for_each(|(key, value)| eprintln!("  {key} = {value}"));
            let condition = match (&weights.levels, weights.settings["model.embedding_type"] == "fourier") {
                (Some(_), _) => "the noise, as score_sde passes it",
                (None, true) => "the time t: pass exp(t), of which score_sde takes the logarithm",
                (None, false) => "the time t: pass 999 t",
            };
            eprintln!("  conditioned on {condition}");
        }
        facts["file"] = out.display().to_string().into();
        facts["checkpoint"] = json!(model.checkpoint);
        facts["tensors"] = weights.tensors.len().into();
        facts["numbers"] = numbers.into();
        facts["settings"] = json!(weights.settings);
        facts["conditioned_on"] = if weights.levels.is_some() { "noise" } else { "time" }.into();
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
