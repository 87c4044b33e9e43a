//! A model's weights for PyTorch: under score_sde_pytorch's names and in its layouts (convolutions `[out, in, rows, columns]`).

use super::{Condition, Model};
use crate::import::score_sde::{CONDITIONED_ON, NoiseLevels, OfficialTensor, TIME, is_frozen};
use crate::import::{TorchNumbers, TorchValue, write_safetensors, write_torch};
use crate::network::{Embedding, Normalisation, TimeInput, UNetConfig};
use crate::recipe::{PathSection, Weights};
use serde_json::{Value, json};
use softdiff_engine::{Hint, atomic_file};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// score_sde's `model.num_scales`.
const NOISE_LEVELS: usize = 1000;
/// score_sde's `model.ema_rate` of its VE networks, for weights that are no average.
const USUAL_DECAY: f64 = 0.999;

/// The weights of a model in score_sde's terms.
pub struct ScoreSdeWeights {
    /// Every parameter under its official name, in the official order.
    pub tensors: Vec<(String, OfficialTensor)>,
    /// The settings of score_sde's configuration that make this network.
    pub settings: BTreeMap<&'static str, Value>,
    /// The noise levels of a network that is conditioned on them, as score_sde's VE networks are; else it is conditioned on the time.
    pub levels: Option<NoiseLevels>,
    /// Training steps behind the weights.
    pub step: u64,
    ema_decay: f64,
    name: String,
}

/// Why a model's weights could not be written in score_sde's terms.
#[derive(Debug, thiserror::Error)]
pub enum ScoreSdeError {
    /// Not an NCSN++.
    #[error("score_sde has no network like this: {0}")]
    NoSuchNetwork(&'static str),
    /// Parameters that do not fit the network.
    #[error("{0}")]
    Engine(#[from] softdiff_engine::Error),
    /// An ending that says no format.
    #[error("{}: the ending says no format", .0.display())]
    Format(PathBuf),
    /// A file that cannot be written.
    #[error("cannot write {}: {error}", file.display())]
    #[allow(missing_docs)]
    Unwritable { file: PathBuf, error: io::Error },
}

impl Hint for ScoreSdeError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            ScoreSdeError::NoSuchNetwork(_) => {
                "leave --format out: the weights are then a safetensors file under our own names".into()
            }
            ScoreSdeError::Format(_) => "give a .pth (torch.save, as score_sde restores it) or a .safetensors".into(),
            ScoreSdeError::Unwritable { .. } => {
                "check the folder, the free space and the limit on file sizes (ulimit -f)".into()
            }
            ScoreSdeError::Engine(_) => return None,
        })
    }
}

impl Model {
    /// The weights under score_sde's names.
    pub fn score_sde_weights(&self) -> Result<ScoreSdeWeights, ScoreSdeError> {
        let no = ScoreSdeError::NoSuchNetwork;
        let network = self.network.as_unet().ok_or(no("it is no NCSN++"))?;
        for (is_unlike, reason) in [
            (network.norm != Normalisation::Group, "network.norm is \"none\""),
            (!network.middle_attention, "network.middle_attention is false"),
            (!network.pyramid, "network.pyramid is false"),
            (network.mask_channel, "network.mask_channel is true"),
        ] {
            if is_unlike {
                return Err(no(reason));
            }
        }
        let mut tensors = Vec::new();
        for one in network.graph(1)?.1.correspondence {
            let data = one.to_official(self.params.get(&one.name)?);
            tensors.push((one.official, OfficialTensor { shape: one.official_shape, data }));
        }
        let levels = self.noise_levels(network);
        Ok(ScoreSdeWeights {
            tensors,
            settings: settings(network, levels.is_some()),
            levels,
            step: self.step,
            ema_decay: match self.weights {
                Weights::Ema(decay) => decay,
                _ => USUAL_DECAY,
            },
            name: self.name.clone(),
        })
    }

    /// The levels of a network that is conditioned on the noise as score_sde's are.
    fn noise_levels(&self, network: &UNetConfig) -> Option<NoiseLevels> {
        let count = match self.condition {
            Condition::NoiseIndex { levels } => levels,
            Condition::LogSigma => NOISE_LEVELS,
            Condition::Time if network.time_input == TimeInput::Time => return None,
            Condition::Time => NOISE_LEVELS,
        };
        match self.recipe.path {
            PathSection::Ve { smallest, largest } => Some(NoiseLevels { count, largest, smallest }),
            _ => None,
        }
    }
}

/// score_sde's configuration: what differs from `configs/ve/cifar10_ncsnpp_continuous.py`, or is worth saying.
fn settings(network: &UNetConfig, scales_by_sigma: bool) -> BTreeMap<&'static str, Value> {
    let embedding = match network.embedding {
        Embedding::Fourier { .. } => "fourier",
        Embedding::Positional => "positional",
    };
    BTreeMap::from([
        ("data.image_size", json!(network.image_size)),
        ("data.num_channels", json!(network.image_channels)),
        ("data.centered", json!(!network.unit_range)),
        ("model.nf", json!(network.channels)),
        ("model.ch_mult", json!(network.multipliers)),
        ("model.num_res_blocks", json!(network.blocks)),
        ("model.attn_resolutions", json!(network.attention)),
        ("model.embedding_type", json!(embedding)),
        ("model.fir_kernel", json!(network.fir)),
        ("model.dropout", json!(network.dropout)),
        ("model.scale_by_sigma", json!(scales_by_sigma)),
    ])
}

impl ScoreSdeWeights {
    /// Writes a `.pth` or a `.safetensors`, by the ending of `out`.
    ///
    /// A `.pth` is a checkpoint as score_sde's `restore_checkpoint` reads it: the weights as `model` and as `ema`, and an optimizer
    /// before its first step. A `.safetensors` has the weights alone, without the `module.` before each name.
    pub fn write(&self, out: &Path) -> Result<(), ScoreSdeError> {
        let written = match out.extension().and_then(|ending| ending.to_str()) {
            Some("pth" | "pt") => atomic_file::write(out, |file| self.write_pth(file)),
            Some("safetensors") => atomic_file::write(out, |file| self.write_safetensors(file)),
            _ => return Err(ScoreSdeError::Format(out.into())),
        };
        written.map_err(|error| ScoreSdeError::Unwritable { file: out.into(), error })
    }

    fn write_safetensors(&self, out: &mut impl Write) -> io::Result<()> {
        let mut metadata = BTreeMap::from([
            ("format".to_owned(), "score_sde".to_owned()),
            ("name".into(), self.name.clone()),
            ("step".into(), self.step.to_string()),
            ("ema_decay".into(), self.ema_decay.to_string()),
            ("settings".into(), json!(self.settings).to_string()),
        ]);
        match &self.levels {
            Some(levels) => metadata.insert("noise_levels".into(), json!(levels).to_string()),
            None => metadata.insert(CONDITIONED_ON.into(), TIME.into()),
        };
        write_safetensors(out, &self.tensors, &metadata)
    }

    fn write_pth(&self, out: &mut impl Write) -> io::Result<()> {
        use TorchValue::{Dict, Flag, Float, Int, List, Ordered, Tensor, Text, Tuple};
        let sigmas = self.levels.map(|levels| levels.sigmas());
        let shape = [sigmas.as_ref().map_or(0, Vec::len)];
        let buffer = sigmas.as_ref().map(|sigmas| ("module.sigmas".into(), Tensor(&shape, TorchNumbers::F64(sigmas))));
        let weights = self.tensors.iter().map(|(name, one)| (format!("module.{name}"), tensor(one)));
        let average = self.tensors.iter().filter(|one| !is_frozen(one)).map(|(_, one)| tensor(one));
        let group = vec![
            ("lr", Float(2e-4)),
            ("betas", Tuple(vec![Float(0.9), Float(0.999)])),
            ("eps", Float(1e-8)),
            ("weight_decay", Int(0)),
            ("amsgrad", Flag(false)),
            ("params", List((0..self.tensors.len()).map(Int).collect())),
        ];
        let step = usize::try_from(self.step).unwrap_or(usize::MAX);
        let mut root = vec![
            ("optimizer", Dict(vec![("state", Dict(vec![])), ("param_groups", List(vec![Dict(group)]))])),
            ("model", Ordered(buffer.into_iter().chain(weights).collect())),
            (
                "ema",
                Dict(vec![
                    ("decay", Float(self.ema_decay)),
                    ("num_updates", Int(step)),
                    ("shadow_params", List(average.collect())),
                ]),
            ),
            ("step", Int(step)),
        ];
        if self.levels.is_none() {
            root.push((CONDITIONED_ON, Text(TIME)));
        }
        write_torch(out, &Dict(root))
    }
}

fn tensor(tensor: &OfficialTensor) -> TorchValue<'_> {
    TorchValue::Tensor(&tensor.shape, TorchNumbers::F32(&tensor.data))
}
