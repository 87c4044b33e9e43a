//! Checkpoints of `yang-song/score_sde_pytorch`: `{optimizer, model, ema, step}`.
//!
//! The model's tensors have names (`module.all_modules.4.Conv_0.weight`); the EMA and the optimizer only have positions, in
//! the order of the model's parameters. The EMA list leaves out the frozen Fourier frequencies, the optimizer counts them.
//! Weights alone may also come as safetensors under the same names, as `softdiff export --format score-sde` writes them.
//! Invariant: every tensor handed out has the shape of its parameter and finite values.

mod adam;
mod levels;
mod parameters;
mod weights_file;

pub use adam::{ImportedAdam, Moments};
pub use levels::NoiseLevels;
pub(crate) use parameters::is_frozen;

use super::numpy::{number, whole};
use super::pickle::PickleNode;
use super::torch::TorchFile;
use super::{ImportError, foreign, read_file};
use parameters::{OfficialModel, read_weights};
use std::path::Path;

/// Where our own exports say what the network is conditioned on, if it is not the noise, as score_sde's networks are.
pub(crate) const CONDITIONED_ON: &str = "conditioned_on";
/// The time of the path that the model was trained on.
pub(crate) const TIME: &str = "time";

/// A tensor in single precision, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct OfficialTensor {
    /// The size along each axis, in the official layout.
    pub shape: Vec<usize>,
    /// The numbers.
    pub data: Vec<f32>,
}

/// Everything in a score_sde checkpoint, by official name.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreSdeCheckpoint {
    /// The weights as last trained, in the model's order.
    pub model: Vec<(String, OfficialTensor)>,
    /// The averaged weights: trained parameters in the model's order, then frozen ones, which have no average.
    pub ema: Vec<(String, OfficialTensor)>,
    /// The rate of the average, 0.999 for the VE models.
    pub ema_decay: f64,
    /// How many updates the average has seen, when they were counted.
    pub ema_updates: Option<u64>,
    /// The optimizer, unless it was left out to save space.
    pub adam: Option<ImportedAdam>,
    /// Training steps done.
    pub step: u64,
    /// The buffer of discrete noise levels, largest first.
    pub sigmas: Option<Vec<f64>>,
    /// Whether the network is conditioned on the time of a path of ours instead of the noise.
    pub is_conditioned_on_time: bool,
}

impl ScoreSdeCheckpoint {
    /// Reads a `.pth` file, or a `.safetensors` with official names.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ImportError> {
        if let Some(software) = foreign::of_folder(path.as_ref()) {
            return Err(ImportError::Foreign { software });
        }
        Self::from_bytes(&read_file(path.as_ref())?)
    }

    /// Reads a `.pth` file, or official weights as safetensors, that are in memory.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ImportError> {
        if let Some(weights) = weights_file::read(bytes)? {
            return Ok(weights);
        }
        if let Some(software) = foreign::of_bytes(bytes) {
            return Err(ImportError::Foreign { software });
        }
        let file = TorchFile::open(bytes)?;
        let root = file.root();
        if root.find("model")?.is_none()
            && foreign::is_diffusers(|name| root.find(name).is_ok_and(|found| found.is_some()))
        {
            return Err(ImportError::Foreign { software: foreign::DIFFUSERS });
        }
        let model = OfficialModel::read(&file, &root.get("model")?)?;
        let average = root.get("ema")?;
        let adam =
            root.find("optimizer")?.map(|optimizer| ImportedAdam::read(&file, &optimizer, &model)).transpose()?;
        Ok(ScoreSdeCheckpoint {
            ema: read_average(&file, &average.get("shadow_params")?, &model)?,
            ema_decay: read_decay(&file, &average.get("decay")?)?,
            ema_updates: read_updates(&file, &average)?,
            adam,
            step: whole(&file, &root.get("step")?)?,
            is_conditioned_on_time: root
                .find(CONDITIONED_ON)?
                .is_some_and(|node| node.text().is_ok_and(|on| on == TIME)),
            sigmas: model.sigmas,
            model: model.parameters,
        })
    }
}

fn read_average(
    file: &TorchFile,
    list: &PickleNode,
    model: &OfficialModel,
) -> Result<Vec<(String, OfficialTensor)>, ImportError> {
    let items = list.items()?;
    let trained = model.trained().count();
    if items.len() != trained {
        let expected = format!("{trained}, one for each trained parameter");
        return Err(ImportError::Count { place: list.place(), expected, found: items.len() });
    }
    let mut average = items
        .zip(model.trained())
        .map(|(item, (name, weights))| Ok((name.clone(), read_weights(file, &item, name, Some(&weights.shape))?)))
        .collect::<Result<Vec<_>, ImportError>>()?;
    average.extend(model.frozen().cloned());
    Ok(average)
}

fn read_decay(file: &TorchFile, node: &PickleNode) -> Result<f64, ImportError> {
    let decay = number(file, node)?;
    if !(0.0..=1.0).contains(&decay) {
        return Err(ImportError::OutOfRange { place: node.place(), value: decay, expected: "between 0 and 1" });
    }
    Ok(decay)
}

/// `None` is how torch_ema says that it does not count.
fn read_updates(file: &TorchFile, average: &PickleNode) -> Result<Option<u64>, ImportError> {
    match average.find("num_updates")? {
        Some(node) if !node.is_none() => whole(file, &node).map(Some),
        _ => Ok(None),
    }
}
