//! Weights of score_sde's VE networks, as `softdiff import` writes them: one safetensors file that names its network.

use super::{Condition, Model, ModelError, stored_size};
use crate::corruption::Shape;
use crate::import::foreign;
use crate::import::score_sde::{CONDITIONED_ON, NoiseLevels, TIME};
use crate::network::{Embedding, UNetConfig};
use crate::objective::Prediction;
use crate::path::Path;
use crate::prior::Prior;
use crate::recipe::{Recipe, Weights};
use safetensors::SafeTensors;
use softdiff_engine::shared_bytes::SharedBytes;
use softdiff_engine::{Hint, regular_file};
use std::path::Path as FilePath;
use std::sync::Arc;

/// Noise at t = 0 and t = 1 of score_sde's VE diffusions: of CIFAR-10, and of larger images such as CelebA.
const SMALLEST: f64 = 0.01;
const LARGEST_NOISE: [f64; 2] = [50.0, 90.0];

impl Model {
    /// Opens a file of imported weights.
    pub(super) fn open_imported(file: &FilePath) -> Result<Model, ModelError> {
        let fail = |problem: String| ModelError::Imported { file: file.into(), problem };
        regular_file::refuse_link(file).map_err(|error| fail(error.to_string()))?;
        // A long file is mapped, so that of one that is no such file only the beginning is read.
        let bytes = SharedBytes::open(file).map_err(|error| fail(error.to_string()))?;
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|error| {
            match file.extension().is_some_and(|ending| ending == "safetensors") {
                true => fail(error.to_string()),
                false => ModelError::NotWeights(file.into()),
            }
        })?;
        let facts = header.metadata().clone().unwrap_or_default();
        let names = header.tensors();
        if foreign::is_diffusers(|name| names.contains_key(name)) {
            return Err(fail(format!("this is {}, which cannot be used", foreign::DIFFUSERS)));
        }
        let network = facts.get("network").ok_or_else(|| fail("it does not say which network it is of".into()))?;
        let network: UNetConfig = serde_json::from_str(network).map_err(|error| fail(error.to_string()))?;
        network.check().map_err(|error| fail(error.in_full()))?;
        if facts.get(CONDITIONED_ON).is_some_and(|on| on == TIME) {
            return Err(ModelError::ConditionedOnTime(file.into()));
        }
        let levels = facts.get("noise_levels").and_then(|text| serde_json::from_str::<NoiseLevels>(text).ok());
        let condition = match (&network.embedding, levels) {
            (Embedding::Fourier { .. }, _) => Condition::LogSigma,
            (Embedding::Positional, Some(levels)) => Condition::NoiseIndex { levels: levels.count },
            (Embedding::Positional, None) => return Err(ModelError::NoNoiseLevels(file.into())),
        };
        let mut params = stored_size::template(&network.graph(1)?.0, file)?;
        params.read_safetensors(&bytes).map_err(|error| fail(error.in_full()))?;
        let shape = Shape::new(network.image_size, network.image_size, network.image_channels);
        // Files of earlier versions do not say.
        let usual = (SMALLEST, LARGEST_NOISE[usize::from(network.image_size > 32)]);
        let (smallest, largest) = levels.map_or(usual, |levels| (levels.smallest, levels.largest));
        let sets = [format!("path.smallest={smallest:?}"), format!("path.largest={largest:?}")];
        let recipe = Recipe::builtin("ve", &sets)?;
        let path = Path::variance_exploding(shape, smallest, largest).map_err(|error| fail(error.in_full()))?;
        let prior = Prior::noise(&path)?;
        Ok(Model {
            name: file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            recipe,
            path: Arc::new(path),
            schedule: None,
            prior,
            network: Arc::new(network),
            prediction: Prediction::PAPER,
            condition,
            params,
            guide: None,
            weights: Weights::Raw,
            step: facts.get("step").and_then(|step| step.parse().ok()).unwrap_or(0),
            checkpoint: None,
            is_described: true,
        })
    }
}
