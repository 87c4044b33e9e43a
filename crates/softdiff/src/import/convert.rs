//! A score_sde checkpoint as a file of weights, and as a state that training goes on from.

use super::score_sde::{CONDITIONED_ON, ImportedAdam, Moments, NoiseLevels, OfficialTensor, TIME};
use super::{ScoreSdeCheckpoint, TrainingFile, write_safetensors};
use crate::network::{Correspondence, UNetConfig, UnknownNetwork};
use softdiff_engine::Hint;
use softdiff_engine::{Params, atomic_file};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Tensors by name.
type Tensors = Vec<(String, OfficialTensor)>;

/// The two sets of weights in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportedWeights {
    /// The moving average, used for sampling.
    Ema,
    /// Those last trained.
    Model,
}

impl ImportedWeights {
    /// `ema` or `model`.
    pub fn name(self) -> &'static str {
        match self {
            ImportedWeights::Ema => "ema",
            ImportedWeights::Model => "model",
        }
    }
}

/// How a checkpoint is converted.
#[derive(Clone, Copy, Debug)]
pub struct ConversionOptions {
    /// Which weights.
    pub weights: ImportedWeights,
    /// Whether score_sde's names and layouts are kept, which this library does not load.
    pub official_names: bool,
    /// The side of the images the network was trained on, if it is not the published one.
    pub image_size: Option<usize>,
    /// Whether the state of the optimiser is converted too.
    pub training_state: bool,
}

/// A converted checkpoint, ready to be written.
pub struct ConvertedCheckpoint {
    /// The weights.
    pub tensors: Tensors,
    /// What the header says.
    pub metadata: BTreeMap<String, String>,
    /// Adam's updates; last weights, average and Adam's moments.
    training: Option<(u64, [Tensors; 4])>,
}

/// Why a checkpoint could not be converted.
#[derive(Debug, thiserror::Error)]
pub enum ConversionError {
    /// Not an NCSN++ that is known.
    #[error("{0}")]
    Network(UnknownNetwork),
    /// Noise levels that no path has.
    #[error("the noise levels of this checkpoint (its buffer sigmas) are not geometric")]
    NotGeometric,
    /// Weights that do not fit the network.
    #[error("{0}")]
    Engine(#[from] softdiff_engine::Error),
    /// A file that cannot be written.
    #[error("cannot write {}: {error}", file.display())]
    #[allow(missing_docs)]
    Unwritable { file: PathBuf, error: std::io::Error },
}

impl Hint for ConversionError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            ConversionError::Network(..) => "--names official keeps the file's own names".into(),
            ConversionError::NotGeometric => "--names official keeps the weights without them".into(),
            ConversionError::Unwritable { .. } => {
                "check the folder, the free space and the limit on file sizes (ulimit -f)".into()
            }
            _ => return None,
        })
    }
}

impl ScoreSdeCheckpoint {
    /// Converts a checkpoint; `source` is its file's name.
    pub fn convert(self, source: &str, options: &ConversionOptions) -> Result<ConvertedCheckpoint, ConversionError> {
        let ConversionOptions { weights, official_names, image_size, training_state } = *options;
        let mut metadata: BTreeMap<String, String> = [
            ("format", "score_sde".to_string()),
            ("source", source.to_string()),
            ("step", self.step.to_string()),
            ("ema_decay", self.ema_decay.to_string()),
            ("weights", weights.name().to_string()),
        ]
        .map(|(key, value)| (key.to_string(), value))
        .into();
        if official_names {
            let tensors = if weights == ImportedWeights::Ema { self.ema } else { self.model };
            return Ok(ConvertedCheckpoint { tensors, metadata, training: None });
        }
        if self.is_conditioned_on_time {
            metadata.insert(CONDITIONED_ON.into(), TIME.into());
        }
        if let Some(sigmas) = &self.sigmas {
            let levels = NoiseLevels::of(sigmas).ok_or(ConversionError::NotGeometric)?;
            metadata.insert("noise_levels".into(), serde_json::to_string(&levels).expect("numbers are JSON"));
        }
        let (config, ema) = translate(&self.ema, image_size)?;
        let (_, model) = translate(&self.model, image_size)?;
        metadata.insert("format".into(), "softdiff".into());
        metadata.insert("network".into(), serde_json::to_string(&config).expect("numbers are JSON"));
        let mut training = None;
        if let (Some(adam), true) = (&self.adam, training_state) {
            training = moments(&self, adam, image_size)?
                .map(|(updates, [first, second])| (updates, [model.clone(), ema.clone(), first, second]));
        }
        let tensors = if weights == ImportedWeights::Ema { ema } else { model };
        Ok(ConvertedCheckpoint { tensors, metadata, training })
    }
}

impl ConvertedCheckpoint {
    /// Writes the weights, and the state of training to a second file where there is one; gives that file.
    pub fn write(self, out: &Path) -> Result<Option<PathBuf>, ConversionError> {
        let ConvertedCheckpoint { tensors, metadata, training } = self;
        let unwritable = |file: &Path, error| ConversionError::Unwritable { file: file.into(), error };
        atomic_file::write(out, |file| write_safetensors(file, &tensors, &metadata))
            .map_err(|error| unwritable(out, error))?;
        let Some((updates, sets)) = training else { return Ok(None) };
        let state = TrainingFile::place(out);
        let (mut sets, mut metadata) = (Some(sets), Some(metadata));
        let write = |file: &mut _| {
            let (sets, metadata) = (sets.take().expect("written once"), metadata.take().expect("written once"));
            TrainingFile::write(file, sets, updates, metadata)
        };
        atomic_file::write(&state, write).map_err(|error| unwritable(&state, error))?;
        Ok(Some(state))
    }
}

/// The network and its weights under our names and in our layouts.
fn translate(official: &Tensors, image_size: Option<usize>) -> Result<(UNetConfig, Tensors), ConversionError> {
    let shapes: Vec<(&str, &[usize])> = official.iter().map(|(n, t)| (n.as_str(), t.shape.as_slice())).collect();
    let config = UNetConfig::from_official(&shapes, image_size).map_err(ConversionError::Network)?;
    let (graph, net) = config.graph(1)?;
    let by_name: HashMap<&str, &OfficialTensor> = official.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let find = |name: &str| by_name.get(name).map(|t| (t.shape.clone(), t.data.clone()));
    let mut params = Params::<f32>::zeros(&graph);
    Correspondence::load_all(&net.correspondence, &mut params, &find)?;
    let named = params.specs().iter().enumerate().map(|(index, spec)| {
        (spec.name.clone(), OfficialTensor { shape: spec.shape.to_vec(), data: params.value(index).to_vec() })
    });
    Ok((config, named.collect()))
}

/// Adam's updates and its two moments under our names; none before its first step.
fn moments(
    checkpoint: &ScoreSdeCheckpoint,
    adam: &ImportedAdam,
    image_size: Option<usize>,
) -> Result<Option<(u64, [Tensors; 2])>, ConversionError> {
    let Some(updates) = adam.moments.iter().map(|moments| moments.step).max() else { return Ok(None) };
    let named = |of: fn(&Moments) -> &OfficialTensor| {
        let moments: HashMap<&str, &OfficialTensor> = adam.moments.iter().map(|m| (m.name.as_str(), of(m))).collect();
        // Frozen parameters have no moments; their own values keep their place.
        let tensor = |(name, value): &(String, OfficialTensor)| {
            (name.clone(), moments.get(name.as_str()).map_or_else(|| value.clone(), |tensor| (*tensor).clone()))
        };
        translate(&checkpoint.model.iter().map(tensor).collect(), image_size).map(|(_, tensors)| tensors)
    };
    Ok(Some((updates, [named(|moments| &moments.first)?, named(|moments| &moments.second)?])))
}
