//! The network with random weights, for tests of what uses it: the published file has 96 MB.

use super::weights::{PREFIX, graph};
use safetensors::tensor::{Dtype, TensorView};
use softdiff_engine::rng::RandomStream;
use softdiff_engine::{Hint, Params};
use std::collections::HashMap;

/// A safetensors file with random weights in place of the published ones.
pub fn random_weights(seed: u64) -> Result<Vec<u8>, String> {
    let params: Params<f32> = Params::zeros(&graph().map_err(|error| error.in_full())?);
    let mut tensors = Vec::new();
    for spec in params.specs() {
        let Some(unit) = spec.name.strip_suffix(".weight") else { continue };
        let [k, r, s, c] = [spec.shape[0], spec.shape[1], spec.shape[2], spec.shape[3]];
        // Keeps the mean square of what passes a rectifier.
        let scale = (2.0 / (r * s * c) as f64).sqrt();
        let weights = RandomStream::new(seed, unit).normals(k * r * s * c).into_iter().map(|normal| scale * normal);
        tensors.push((format!("{PREFIX}{unit}.weight"), vec![k, c, r, s], bytes(weights)));
        for (name, value) in [("beta", 0.1), ("mean", 0.0), ("var", 1.0)] {
            tensors.push((format!("{PREFIX}{unit}.{name}"), vec![k], bytes((0..k).map(|_| value))));
        }
    }
    let mut views = HashMap::new();
    for (name, shape, data) in &tensors {
        let view = TensorView::new(Dtype::F32, shape.clone(), data).map_err(|error| error.to_string())?;
        views.insert(name.clone(), view);
    }
    safetensors::serialize(views, None).map_err(|error| error.to_string())
}

fn bytes(values: impl Iterator<Item = f64>) -> Vec<u8> {
    values.flat_map(|value| (value as f32).to_le_bytes()).collect()
}
