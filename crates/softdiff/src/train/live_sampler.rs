//! Images made with the weights of the moment: what previews and scores share.

use super::RunSpec;
use crate::model::{Condition, Generation, Generator, Predictor, batch_size};
use crate::sampler::{Sampler, SamplerError, Sampling};
use softdiff_engine::ranks::Ranks;
use softdiff_engine::{Device, Params};

/// Images at a time.
const BATCH: usize = 64;
/// Images held in double precision at once: an image depends on its own seed alone.
const AT_ONCE: usize = 1024;

/// A run's network on a device, built with the first weights and given the next ones. All but the weights must be as it was the
/// first time. With other ranks, rank 0 calls [`LiveSampler::images`] and the others [`LiveSampler::serve`].
pub(super) struct LiveSampler<'a> {
    device: &'a Device,
    ranks: Ranks,
    generator: Option<Generator>,
}

impl<'a> LiveSampler<'a> {
    pub(super) fn new(device: &'a Device, ranks: Ranks) -> LiveSampler<'a> {
        LiveSampler { device, ranks, generator: None }
    }

    /// The images that `weights` make of seeds 0, 1, ..., as bytes by `to_bytes`.
    pub(super) fn images(
        &mut self,
        spec: &RunSpec,
        weights: &Params<f32>,
        by: (&dyn Sampler, &Sampling),
        count: usize,
        to_bytes: impl Fn(&[f64]) -> Vec<u8>,
    ) -> Result<Vec<u8>, SamplerError> {
        let generation = self.generation(spec, by, count);
        let generator = self.ready(spec, weights, &generation)?;
        let seeds: Vec<u64> = (0..count as u64).collect();
        let mut images = Vec::with_capacity(count * spec.path.shape().len());
        let made = seeds.chunks(AT_ONCE).try_for_each(|part| {
            images.extend(to_bytes(&generator.images(&generation, part, &mut |_, _| Ok(()))?));
            Ok(())
        });
        if matches!(made, Ok(()) | Err(SamplerError::NotFinite { .. })) {
            generator.release()?;
        }
        made.map(|()| images)
    }

    /// Makes a part of the images that rank 0 makes by the same call of [`LiveSampler::images`].
    pub(super) fn serve(
        &mut self,
        spec: &RunSpec,
        weights: &Params<f32>,
        by: (&dyn Sampler, &Sampling),
        count: usize,
    ) -> Result<(), SamplerError> {
        let generation = self.generation(spec, by, count);
        self.ready(spec, weights, &generation)?.serve(&generation)
    }

    fn generation<'g>(
        &self,
        spec: &'g RunSpec,
        (sampler, sampling): (&'g dyn Sampler, &'g Sampling),
        count: usize,
    ) -> Generation<'g> {
        let batch = batch_size::of_part(BATCH, count.min(AT_ONCE), self.device, &self.ranks);
        Generation { path: &spec.path, prior: spec.prior, sampler, sampling, batch }
    }

    /// The network with these weights.
    fn ready(
        &mut self,
        spec: &RunSpec,
        weights: &Params<f32>,
        generation: &Generation<'_>,
    ) -> Result<&mut Generator, SamplerError> {
        match &mut self.generator {
            Some(generator) => {
                generator.set_params(weights)?;
                Ok(generator)
            }
            none => {
                let (prediction, path) = (spec.prediction.clone(), spec.path.clone());
                let (network, condition) = (&*spec.network, Condition::Time);
                let predictor = Predictor { network, params: weights, prediction, condition, path };
                let generator = Generator::new(self.device, predictor, generation, spec.precision)?;
                Ok(none.insert(generator.with_ranks(self.ranks.clone())))
            }
        }
    }
}
