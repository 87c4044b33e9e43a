//! Images from seeds: image i is a function of the model and `seeds[i]`, whatever else is in its batch.

use super::{Model, NetworkDenoiser, Predictor};
use crate::path::Path;
use crate::prior::Prior;
use crate::sampler::{Denoiser, Result, ReverseSteps, Sampler, SamplerError, Sampling};
use rayon::prelude::*;
use softdiff_engine::Device;
use softdiff_engine::Precision;
use softdiff_engine::hash::ContentHash;
use softdiff_engine::ranks::Ranks;

/// What to make images with.
pub struct Generation<'a> {
    /// The path to go back on.
    pub path: &'a Path,
    /// Where to start from.
    pub prior: &'a Prior,
    /// How to step.
    pub sampler: &'a dyn Sampler,
    /// When to step.
    pub sampling: &'a Sampling,
    /// Images at a time.
    pub batch: usize,
}

impl Generation<'_> {
    /// x_1 of each seed.
    pub fn starts(&self, seeds: &[u64]) -> Vec<f64> {
        starts(self.prior, seeds)
    }

    /// One image per seed, in the range of the data but not cut off to it. `progress` takes the steps done and all there are,
    /// counted for each image; its error ends the sampling.
    pub fn images(&self, denoiser: &mut dyn Denoiser, seeds: &[u64], progress: &mut StepProgress) -> Result<Vec<f64>> {
        self.by_parts(seeds, progress, |part, after| self.part(denoiser, self.starts(part), part, after))
    }

    /// The same from x_1 of the caller's, one image per seed, instead of the prior's.
    pub fn images_from(
        &self,
        denoiser: &mut dyn Denoiser,
        x1: &[f64],
        seeds: &[u64],
        progress: &mut StepProgress,
    ) -> Result<Vec<f64>> {
        let size = self.path.shape().len();
        if x1.len() != seeds.len() * size {
            return Err(SamplerError::Size { what: "the start", found: x1.len(), expected: seeds.len() * size });
        }
        let mut starts = x1.chunks(self.batch.max(1) * size);
        self.by_parts(seeds, progress, |part, after| {
            self.part(denoiser, starts.next().unwrap_or_default().to_vec(), part, after)
        })
    }

    fn part(
        &self,
        denoiser: &mut dyn Denoiser,
        x1: Vec<f64>,
        seeds: &[u64],
        after: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<f64>> {
        let mut steps = ReverseSteps::new(self.path, self.sampling, x1, seeds)?;
        while steps.advance(self.path, self.sampler, self.sampling, denoiser)? {
            after()?;
        }
        Ok(steps.images())
    }

    /// All images, a batch at a time as `make` makes them, which is to call its second argument after every step.
    pub(super) fn by_parts(
        &self,
        seeds: &[u64],
        progress: &mut StepProgress,
        mut make: impl FnMut(&[u64], &mut dyn FnMut() -> Result<()>) -> Result<Vec<f64>>,
    ) -> Result<Vec<f64>> {
        let total = seeds.len() * self.sampling.times.len().saturating_sub(1);
        let (mut images, mut done) = (Vec::with_capacity(seeds.len() * self.path.shape().len()), 0);
        for part in seeds.chunks(self.batch.max(1)) {
            let mut after = || {
                done += part.len();
                progress(done, total)
            };
            images.extend(make(part, &mut after)?);
        }
        Ok(images)
    }
}

/// Takes how many steps are done and how many there are; an error ends the sampling.
pub type StepProgress<'a> = dyn FnMut(usize, usize) -> Result<()> + 'a;

/// x_1 of each seed.
fn starts(prior: &Prior, seeds: &[u64]) -> Vec<f64> {
    seeds.par_iter().flat_map_iter(|&seed| prior.sample(1, seed)).collect()
}

impl Model {
    /// x_1 of each seed.
    pub fn starts(&self, seeds: &[u64]) -> Vec<f64> {
        starts(&self.prior, seeds)
    }

    /// Its network on a device.
    pub fn denoiser(&self, device: &Device, batch: usize, precision: Precision) -> Result<NetworkDenoiser> {
        NetworkDenoiser::new(device, self.predictor(), batch, precision)
    }

    /// Its network with its weights, and how to read it.
    pub fn predictor(&self) -> Predictor<'_> {
        let (prediction, condition, path) = (self.prediction.clone(), self.condition, self.path.clone());
        Predictor { network: &*self.network, params: &self.params, prediction, condition, path }
    }

    /// An error where another rank has another model, or is to make other images: from other seeds, or with other `options`.
    pub fn require_same(
        &self,
        ranks: &Ranks,
        generation: &Generation<'_>,
        seeds: &[u64],
        options: &[u8],
    ) -> Result<()> {
        if ranks.others().is_none() {
            return Ok(());
        }
        let bytes_of = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let weights = (0..self.params.specs().len()).map(|index| ContentHash::of(&bytes_of(self.params.value(index))));
        let seed_bytes: Vec<u8> = seeds.iter().flat_map(|seed| seed.to_le_bytes()).collect();
        let first = seeds.first().map_or(vec![], |&seed| generation.starts(&[seed]));
        let rest = [ContentHash::of(options), ContentHash::of(&seed_bytes), ContentHash::of_values(first)];
        let all = ContentHash::of_parts(weights.chain(rest));
        Ok(ranks.require_same("the model, the options or the images to begin with", &all.bytes())?)
    }

    /// Making images with it, `batch` at a time.
    pub fn generation<'a>(&'a self, sampler: &'a dyn Sampler, sampling: &'a Sampling, batch: usize) -> Generation<'a> {
        Generation { path: &self.path, prior: &self.prior, sampler, sampling, batch }
    }
}

/// x_t as values to look at: strong noise would be black and white only, so what is louder than the image is turned down.
pub fn visible(x: &[f64], sigma: f64) -> Vec<f64> {
    let factor = 1.0 / (2.0 * sigma).max(1.0);
    x.iter().map(|x| 0.5 + factor * (x - 0.5)).collect()
}
