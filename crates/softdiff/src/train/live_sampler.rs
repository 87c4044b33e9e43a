//! Images made with the weights of the moment: what previews and scores share.

use super::RunSpec;
use crate::model::{Condition, Generation, Generator, Predictor};
use crate::sampler::{Sampler, SamplerError, Sampling};
use softdiff_engine::{Device, Params};

/// Images at a time.
const BATCH: usize = 64;
/// Images held in double precision at once: an image depends on its own seed alone.
const AT_ONCE: usize = 1024;

/// A run's network on a device, built with the first weights and given the next ones.
pub(super) struct LiveSampler<'a> {
    device: &'a Device,
    generator: Option<Generator>,
}

impl<'a> LiveSampler<'a> {
    pub(super) fn new(device: &'a Device) -> LiveSampler<'a> {
        LiveSampler { device, generator: None }
    }

    /// The images that `weights` make of seeds 0, 1, ..., as bytes by `to_bytes`. All but the weights must be as it was the
    /// first time.
    pub(super) fn images(
        &mut self,
        spec: &RunSpec,
        weights: &Params<f32>,
        (sampler, sampling): (&dyn Sampler, &Sampling),
        count: usize,
        to_bytes: impl Fn(&[f64]) -> Vec<u8>,
    ) -> Result<Vec<u8>, SamplerError> {
        let batch = count.clamp(1, BATCH);
        let generation = Generation { path: &spec.path, prior: spec.prior, sampler, sampling, batch };
        let generator = match &mut self.generator {
            Some(generator) => {
                generator.set_params(weights)?;
                generator
            }
            none => {
                let (prediction, path) = (spec.prediction.clone(), spec.path.clone());
                let (network, condition) = (&*spec.network, Condition::Time);
                let predictor = Predictor { network, params: weights, prediction, condition, path };
                none.insert(Generator::new(self.device, predictor, &generation, spec.precision)?)
            }
        };
        let seeds: Vec<u64> = (0..count as u64).collect();
        let mut images = Vec::with_capacity(count * spec.path.shape().len());
        for part in seeds.chunks(AT_ONCE) {
            images.extend(to_bytes(&generator.images(&generation, part, &mut |_, _| Ok(()))?));
        }
        Ok(images)
    }
}
