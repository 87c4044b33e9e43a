//! Official weights as safetensors, without an optimizer or a second set of weights.

use super::parameters::is_parameter;
use super::{CONDITIONED_ON, NoiseLevels, OfficialTensor, ScoreSdeCheckpoint, TIME};
use crate::import::ImportError;
use safetensors::{Dtype, SafeTensors};

/// The weights in a safetensors file; none if `bytes` are no such file or have other names.
pub fn read(bytes: &[u8]) -> Result<Option<ScoreSdeCheckpoint>, ImportError> {
    // A zip archive begins otherwise; the header of safetensors is JSON.
    let is_safetensors = bytes.get(8) == Some(&b'{');
    let Some(file) = is_safetensors.then(|| SafeTensors::deserialize(bytes).ok()).flatten() else { return Ok(None) };
    if file.is_empty() || !file.iter().all(|(name, _)| is_parameter(name)) {
        return Ok(None);
    }
    let mut weights = Vec::new();
    for (name, view) in file.iter() {
        let place = || name.to_owned();
        if view.dtype() != Dtype::F32 {
            return Err(ImportError::NotFloat { place: place(), found: "other numbers than f32" });
        }
        let data: Vec<f32> = view.data().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        if let Some((index, &value)) = data.iter().enumerate().find(|(_, value)| !value.is_finite()) {
            return Err(ImportError::NonFinite { parameter: name.into(), place: place(), index, value });
        }
        weights.push((name.to_owned(), OfficialTensor { shape: view.shape().to_vec(), data }));
    }
    let (_, header) = SafeTensors::read_metadata(bytes).expect("it was read before");
    let facts = header.metadata().clone().unwrap_or_default();
    let levels: Option<NoiseLevels> = facts.get("noise_levels").and_then(|text| serde_json::from_str(text).ok());
    let decay = facts.get("ema_decay").and_then(|decay| decay.parse().ok()).filter(|decay| (0.0..=1.0).contains(decay));
    Ok(Some(ScoreSdeCheckpoint {
        model: weights.clone(),
        ema: weights,
        ema_decay: decay.unwrap_or(0.0),
        ema_updates: None,
        adam: None,
        step: facts.get("step").and_then(|step| step.parse().ok()).unwrap_or(0),
        sigmas: levels.map(|levels| levels.sigmas()),
        is_conditioned_on_time: facts.get(CONDITIONED_ON).is_some_and(|on| on == TIME),
    }))
}
