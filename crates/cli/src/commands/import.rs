//! `softdiff import`: weights made by other software, as safetensors.

mod inspect;

use crate::atomic_file;
use crate::diagnostics::{Failure, Outcome};
use clap::{Args, ValueEnum};
use serde_json::json;
use softdiff::archive::ArchiveError;
use softdiff::engine::Params;
use softdiff::import::score_sde::Tensor;
use softdiff::import::{ImportError, ScoreSdeCheckpoint, write_safetensors};
use softdiff::network::{Correspondence, UNetConfig};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

const EXAMPLE: &str = "\
Example: look into a checkpoint of score_sde_pytorch, then keep its averaged weights.
  softdiff import checkpoint_24.pth --inspect
  softdiff import checkpoint_24.pth --out cifar10.safetensors

The file is read as data: nothing in it can run.";

/// Read a checkpoint of score_sde_pytorch and write its weights as safetensors.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Import {
    /// The checkpoint to read (.pth, saved by torch 1.6 or newer).
    checkpoint: PathBuf,
    /// The safetensors file to write.
    #[arg(long, value_name = "FILE", required_unless_present = "inspect")]
    out: Option<PathBuf>,
    /// Which weights to write: the moving average, used for sampling, or those last trained.
    #[arg(long, value_enum, default_value_t = Weights::Ema)]
    weights: Weights,
    /// Whose parameter names and layouts to write.
    #[arg(long, value_enum, default_value_t = Names::Softdiff)]
    names: Names,
    /// The side of the images the network was trained on, if it is not the published one.
    #[arg(long, value_name = "PIXELS")]
    image_size: Option<usize>,
    /// List the parameters and the state of training; write nothing.
    #[arg(long, conflicts_with_all = ["out", "force"])]
    inspect: bool,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
}

/// Tensors by name.
type Tensors = Vec<(String, Tensor)>;

/// The two sets of weights in a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Weights {
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

impl Weights {
    fn name(self) -> &'static str {
        match self {
            Weights::Ema => "ema",
            Weights::Model => "model",
        }
    }
}

impl Import {
    /// Runs the verb.
    pub fn run(self, json: bool) -> Outcome {
        // Said before a gigabyte is read.
        if let Some(out) = &self.out {
            self.may_write(out)?;
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
        let mut metadata = self.metadata(&checkpoint);
        let step = checkpoint.step;
        let mut tensors = match self.weights {
            Weights::Ema => checkpoint.ema,
            Weights::Model => checkpoint.model,
        };
        if self.names == Names::Softdiff {
            let config;
            (config, tensors) = translate(&tensors, self.image_size)?;
            metadata.insert("format".into(), "softdiff".into());
            metadata.insert("network".into(), serde_json::to_string(&config)?);
        }
        atomic_file::write(out, |file| write_safetensors(file, &tensors, &metadata)).map_err(|error| {
            Failure::new(format!("cannot write {}: {error}", out.display())).hint("check the folder and the free space")
        })?;
        let numbers: usize = tensors.iter().map(|(_, tensor)| tensor.data.len()).sum();
        let (weights, out) = (self.weights.name(), out.display().to_string());
        if json {
            let facts =
                json!({ "out": out, "weights": weights, "step": step, "tensors": tensors.len(), "numbers": numbers });
            println!("{facts}");
        } else {
            eprintln!("wrote {out}: {weights} weights of step {step}, {} tensors, {numbers} numbers", tensors.len());
        }
        Ok(())
    }

    fn metadata(&self, checkpoint: &ScoreSdeCheckpoint) -> BTreeMap<String, String> {
        let source = self.checkpoint.file_name().unwrap_or_default().to_string_lossy().into_owned();
        [
            ("format", "score_sde".to_string()),
            ("source", source),
            ("step", checkpoint.step.to_string()),
            ("ema_decay", checkpoint.ema_decay.to_string()),
            ("weights", self.weights.name().to_string()),
        ]
        .map(|(key, value)| (key.to_string(), value))
        .into()
    }
}

/// The network and its weights under our names and in our layouts.
fn translate(official: &Tensors, image_size: Option<usize>) -> Result<(UNetConfig, Tensors), Failure> {
    let shapes: Vec<(&str, &[usize])> = official.iter().map(|(n, t)| (n.as_str(), t.shape.as_slice())).collect();
    let config = UNetConfig::from_official(&shapes, image_size)
        .map_err(|error| Failure::new(error).hint("--names official keeps the file's own names"))?;
    let (graph, net) = config.graph(1)?;
    let by_name: HashMap<&str, &Tensor> = official.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let find = |name: &str| by_name.get(name).map(|t| (t.shape.clone(), t.data.clone()));
    let mut params = Params::<f32>::zeros(&graph);
    Correspondence::load_all(&net.correspondence, &mut params, &find)?;
    let named = params.specs().iter().enumerate().map(|(index, spec)| {
        (spec.name.clone(), Tensor { shape: spec.shape.to_vec(), data: params.value(index).to_vec() })
    });
    Ok((config, named.collect()))
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
        ImportError::Bytes(_) | ImportError::Archive(ArchiveError::Bytes(_) | ArchiveError::ZipCrc { .. }) => {
            "the file is damaged or not completely downloaded: fetch it again"
        }
        ImportError::Archive(ArchiveError::NotZip { .. }) => {
            "is this the .pth file, completely downloaded? torch 1.6 and newer write zip archives"
        }
        ImportError::PickleGlobal { .. } | ImportError::PickleOpcode { .. } => {
            "only tensors and numbers are read, never Python objects: save the state_dict instead of the model"
        }
        ImportError::NonFinite { .. } => "training had diverged: take an earlier checkpoint",
        _ => "expected a checkpoint of score_sde_pytorch, with the keys optimizer, model, ema and step",
    };
    Failure::new(error).hint(hint)
}
