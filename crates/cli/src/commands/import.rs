//! `softdiff import`: weights made by other software, as safetensors.

mod inspect;

use crate::diagnostics::{Failure, Outcome};
use clap::{Args, ValueEnum};
use serde_json::json;
use softdiff::archive::ArchiveError;
use softdiff::import::{ConversionOptions, ImportError, ImportedWeights, ScoreSdeCheckpoint, TrainingFile};
use std::path::{Path, PathBuf};

const EXAMPLE: &str = "\
Example: look into a checkpoint of score_sde_pytorch, then keep its averaged weights.
  softdiff import checkpoint_24.pth --inspect
  softdiff import checkpoint_24.pth --out cifar10.safetensors
  softdiff sample cifar10.safetensors

Example: go on training it, with its optimiser's state.
  softdiff train ve --out runs/longer --set data.source=cifar10 \\
      --set train.from=cifar10.safetensors --set network.condition=log-sigma

The file is read as data: nothing in it can run.";

/// Read a checkpoint of score_sde_pytorch and write its weights as safetensors.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Import {
    /// The checkpoint to read (.pth, saved by torch 1.6 or newer), or weights of softdiff export --format score-sde.
    checkpoint: PathBuf,
    /// The safetensors file to write.
    #[arg(long, value_name = "FILE", required_unless_present = "inspect")]
    out: Option<PathBuf>,
    /// Which weights to write: the moving average, used for sampling, or those last trained.
    #[arg(long, value_enum, default_value_t = WeightsName::Ema)]
    weights: WeightsName,
    /// Whose parameter names and layouts to write.
    #[arg(long, value_enum, default_value_t = Names::Softdiff)]
    names: Names,
    /// The side of the images the network was trained on, if it is not the published one.
    #[arg(long, value_name = "PIXELS")]
    image_size: Option<usize>,
    /// Write no second file with the last weights, their average and Adam's moments, which train.from goes on with.
    #[arg(long)]
    weights_only: bool,
    /// List the parameters and the state of training; write nothing.
    #[arg(long, conflicts_with_all = ["out", "force", "weights_only"])]
    inspect: bool,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
}

/// The two sets of weights in a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WeightsName {
    Ema,
    Model,
}

/// Whose names.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Names {
    /// Ours: what `softdiff` loads.
    Softdiff,
    /// score_sde's.
    Official,
}

impl Import {
    pub fn run(self, json: bool) -> Outcome {
        // Said before a gigabyte is read.
        if let Some(out) = &self.out {
            self.may_write(out)?;
            self.may_write(&TrainingFile::place(out))?;
        }
        let checkpoint = ScoreSdeCheckpoint::read(&self.checkpoint).map_err(explain)?;
        match &self.out {
            Some(out) => self.write(checkpoint, out, json),
            None => inspect::print(&self.checkpoint, &checkpoint, json),
        }
    }

    fn may_write(&self, out: &Path) -> Outcome {
        if let (Ok(from), Ok(to)) = (self.checkpoint.canonicalize(), out.canonicalize())
            && from == to
        {
            let failure = Failure::new(format!("{} is the checkpoint itself", out.display()));
            return Err(failure.hint("give --out another name"));
        }
        if !self.force && out.symlink_metadata().is_ok() {
            let failure = Failure::new(format!("{} exists already", out.display()));
            return Err(failure.hint("choose another --out, or add --force to replace it"));
        }
        Ok(())
    }

    fn write(&self, checkpoint: ScoreSdeCheckpoint, out: &Path, json: bool) -> Outcome {
        let step = checkpoint.step;
        let source = self.checkpoint.file_name().unwrap_or_default().to_string_lossy();
        let options = ConversionOptions {
            weights: match self.weights {
                WeightsName::Ema => ImportedWeights::Ema,
                WeightsName::Model => ImportedWeights::Model,
            },
            official_names: self.names == Names::Official,
            image_size: self.image_size,
            training_state: !self.weights_only,
        };
        let converted = checkpoint.convert(&source, &options)?;
        let count = converted.tensors.len();
        let numbers: usize = converted.tensors.iter().map(|(_, tensor)| tensor.data.len()).sum();
        let state = converted.write(out)?;
        let (weights, out) = (options.weights.name(), out.display().to_string());
        if json {
            let facts = json!({
                "out": out, "weights": weights, "step": step, "tensors": count, "numbers": numbers,
                "training_state": state.map(|path| path.display().to_string()),
            });
            println!("{facts}");
        } else {
            eprintln!("wrote {out}: {weights} weights of step {step}, {count} tensors, {numbers} numbers");
            if let Some(state) = state {
                eprintln!("wrote {}: last weights, average and Adam's moments, for train.from={out}", state.display());
            }
        }
        Ok(())
    }
}

/// The remedy for each kind of refusal.
fn explain(error: ImportError) -> Failure {
    let hint = match error {
        ImportError::Io { .. } => "check the path and its permissions",
        ImportError::LegacyTorch
        | ImportError::Archive(ArchiveError::ZipCompressed { .. })
        | ImportError::PickleProtocol { .. } => {
            "save it again in Python: torch.save(torch.load(\"old.pth\", map_location=\"cpu\"), \"new.pth\")"
        }
        ImportError::Bytes(_)
        | ImportError::Archive(
            ArchiveError::Bytes(_) | ArchiveError::ZipCrc { .. } | ArchiveError::ZipDamaged { .. },
        ) => "the file is damaged or not completely downloaded: fetch it again",
        ImportError::Archive(ArchiveError::NotZip { .. }) => {
            "is this the .pth file, completely downloaded? torch 1.6 and newer write zip archives"
        }
        ImportError::PickleGlobal { .. } | ImportError::PickleOpcode { .. } => {
            "only tensors and numbers are read, never Python objects: save the state_dict instead of the model"
        }
        ImportError::Foreign { .. } => {
            "only checkpoints of score_sde_pytorch (.pth), or its weights as safetensors under their own names, can be imported"
        }
        ImportError::NonFinite { .. } => "training had diverged: take an earlier checkpoint",
        _ => "expected a checkpoint of score_sde_pytorch, with the keys optimizer, model, ema and step",
    };
    Failure::new(error).hint(hint)
}
