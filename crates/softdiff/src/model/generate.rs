//! Images from seeds: image i is a function of the model and `seeds[i]`, whatever is made beside it.

use crate::path::Path;
use crate::prior::Prior;
use crate::sampler::{Denoiser, Result, Sampler, Sampling, sample};

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
        seeds.iter().flat_map(|&seed| self.prior.sample(1, seed)).collect()
    }

    /// One image per seed, in the range of the data but not cut off to it.
    pub fn images(
        &self,
        denoiser: &mut dyn Denoiser,
        seeds: &[u64],
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<f64>> {
        let mut images = Vec::with_capacity(seeds.len() * self.path.shape().len());
        for part in seeds.chunks(self.batch.max(1)) {
            let x1 = self.starts(part);
            images.extend(sample(self.path, self.sampler, denoiser, x1, part, self.sampling)?);
            progress(images.len() / self.path.shape().len(), seeds.len());
        }
        Ok(images)
    }
}

/// Values in [0, 1] as bytes, rounded; what lies outside is cut off.
pub fn to_bytes(values: &[f64]) -> Vec<u8> {
    values.iter().map(|v| (v.clamp(0.0, 1.0) * 255.0).round() as u8).collect()
}
