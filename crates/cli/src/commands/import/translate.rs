//! Official tensors under our names and in our layouts.

use super::Tensors;
use crate::diagnostics::Failure;
use softdiff::engine::Params;
use softdiff::import::ScoreSdeCheckpoint;
use softdiff::import::score_sde::{Adam, Moments, NoiseLevels, Tensor};
use softdiff::network::{Correspondence, UNetConfig};
use std::collections::HashMap;

/// The network and its weights under our names and in our layouts.
pub fn translate(official: &Tensors, image_size: Option<usize>) -> Result<(UNetConfig, Tensors), Failure> {
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

/// The noise levels that the network was trained with.
pub fn levels(sigmas: &[f64]) -> Result<NoiseLevels, Failure> {
    NoiseLevels::of(sigmas).ok_or_else(|| {
        let failure = Failure::new("the noise levels of this checkpoint (its buffer sigmas) are not geometric");
        failure.hint("--names official keeps the weights without them")
    })
}

/// Adam's updates and its two moments under our names; none before its first step.
pub fn moments(
    checkpoint: &ScoreSdeCheckpoint,
    adam: &Adam,
    image_size: Option<usize>,
) -> Result<Option<(u64, [Tensors; 2])>, Failure> {
    let Some(updates) = adam.moments.iter().map(|moments| moments.step).max() else { return Ok(None) };
    let named = |of: fn(&Moments) -> &Tensor| {
        let moments: HashMap<&str, &Tensor> = adam.moments.iter().map(|m| (m.name.as_str(), of(m))).collect();
        // Frozen parameters have no moments; their own values keep their place.
        let tensor = |(name, value): &(String, Tensor)| {
            (name.clone(), moments.get(name.as_str()).map_or_else(|| value.clone(), |tensor| (*tensor).clone()))
        };
        translate(&checkpoint.model.iter().map(tensor).collect(), image_size).map(|(_, tensors)| tensors)
    };
    Ok(Some((updates, [named(|moments| &moments.first)?, named(|moments| &moments.second)?])))
}
