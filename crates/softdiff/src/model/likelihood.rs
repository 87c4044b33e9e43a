//! How likely a model finds images of 8 bits, in bits per dimension.

use super::{Model, ModelError};
use crate::metrics::MetricError;
use crate::sampler::{Denoiser, SamplerError, Tolerance, Trace, log_likelihoods};
use softdiff_engine::rng::RandomStream;

/// How bits per dimension are measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LikelihoodOptions {
    /// Random directions for the trace of the Jacobian.
    pub probes: usize,
    /// Error of a step of the flow, in the units of the images and in nats per value.
    pub tolerance: f64,
    /// Decides the dequantisation and the directions; image i has those of seed + i.
    pub seed: u64,
    /// Images at a time.
    pub batch: usize,
}

impl Default for LikelihoodOptions {
    fn default() -> Self {
        LikelihoodOptions { probes: 1, tolerance: 1e-4, seed: 0, batch: 16 }
    }
}

/// What went wrong with a likelihood.
#[derive(Debug, thiserror::Error)]
pub enum LikelihoodError {
    /// The prior.
    #[error("{0}")]
    Model(#[from] ModelError),
    /// Images of another size.
    #[error("{0}")]
    Metric(#[from] MetricError),
    /// The flow.
    #[error("{0}")]
    Sampler(#[from] SamplerError),
}

/// `(byte + u) / 256` with u uniform in [0, 1), a stream for each image: a density of the images in [0, 1] is then, in the
/// mean, a lower bound of their probability times `256^d` (Theis et al. 2016).
pub fn dequantised(bytes: &[u8], size: usize, seed: u64) -> Vec<f64> {
    let image = |(index, bytes): (usize, &[u8])| {
        let mut stream = RandomStream::new(seed.wrapping_add(index as u64), "dequantisation");
        bytes.iter().map(|&byte| (f64::from(byte) + stream.uniform()) / 256.0).collect::<Vec<f64>>()
    };
    bytes.chunks_exact(size.max(1)).enumerate().flat_map(image).collect()
}

impl Model {
    /// Bits per dimension of each image, dequantised, under the probability flow of `denoiser` and the model's prior.
    ///
    /// That is `-log2 p(x) / d + 8` with p the density of images in [0, 1].
    pub fn bits_per_dimension(
        &self,
        denoiser: &mut dyn Denoiser,
        bytes: &[u8],
        options: &LikelihoodOptions,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<f64>, LikelihoodError> {
        let LikelihoodOptions { probes, tolerance, seed, batch } = *options;
        let size = self.path.shape().len();
        let density = self.prior.density().map_err(ModelError::from)?;
        let total = bytes.len() / size;
        let mut bits = Vec::with_capacity(total);
        for part in bytes.chunks(batch.max(1) * size) {
            let seed = seed.wrapping_add(bits.len() as u64);
            let (images, trace) = (dequantised(part, size, seed), Trace::Hutchinson { probes, seed });
            let tolerance = Tolerance::of(tolerance);
            let found = log_likelihoods(&self.path, denoiser, &images, &|x| density.log(x), trace, tolerance)?;
            bits.extend(found.iter().map(|one| one.bits_per_dimension() + 8.0));
            progress(bits.len(), total);
        }
        Ok(bits)
    }
}
