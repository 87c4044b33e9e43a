//! Images from seeds: image i is a function of the model and `seeds[i]`, whatever else is in its batch.

use super::{GraphSampler, Model, NetworkDenoiser, Predictor};
use crate::path::Path;
use crate::prior::Prior;
use crate::sampler::{Denoiser, Result, Sampler, Sampling, sample};
use rayon::prelude::*;
use softdiff_engine::Precision;
use softdiff_engine::{Device, Params};

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

    /// Making images with it, `batch` at a time.
    pub fn generation<'a>(&'a self, sampler: &'a dyn Sampler, sampling: &'a Sampling, batch: usize) -> Generation<'a> {
        Generation { path: &self.path, prior: &self.prior, sampler, sampling, batch }
    }
}

/// A network on a device, ready to make images: on a GPU with x_t in its memory where the sampler's steps are affine.
pub struct Generator {
    execution: Execution,
    made: u64,
}

/// Where x_t is.
enum Execution {
    Device(Box<GraphSampler>),
    Memory(Box<NetworkDenoiser>),
}

impl Generator {
    /// Puts the network on `device`, for images as `generation` says.
    pub fn new(
        device: &Device,
        predictor: Predictor<'_>,
        generation: &Generation<'_>,
        precision: Precision,
    ) -> Result<Generator> {
        let Generation { sampler, sampling, batch, .. } = *generation;
        let batch = batch.max(1);
        let execution = if device.is_gpu() && sampler.is_affine() {
            Execution::Device(Box::new(GraphSampler::new(device, predictor, sampling, batch, precision)?))
        } else {
            Execution::Memory(Box::new(NetworkDenoiser::new(device, predictor, batch, precision)?))
        };
        Ok(Generator { execution, made: 0 })
    }

    /// Other weights for the same network.
    pub fn set_params(&mut self, params: &Params<f32>) -> Result<()> {
        match &mut self.execution {
            Execution::Memory(denoiser) => denoiser.set_params(params),
            Execution::Device(graph) => graph.set_params(params),
        }
    }

    /// One image per seed, in the range of the data but not cut off to it; `generation` is the one it was made for.
    pub fn images(
        &mut self,
        generation: &Generation<'_>,
        seeds: &[u64],
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<f64>> {
        self.made += seeds.len() as u64;
        match &mut self.execution {
            Execution::Memory(denoiser) => generation.images(denoiser.as_mut(), seeds, progress),
            Execution::Device(graph) => {
                let size = generation.path.shape().len();
                let mut images = Vec::with_capacity(seeds.len() * size);
                for part in seeds.chunks(generation.batch.max(1)) {
                    let x1 = generation.starts(part);
                    images.extend(graph.sample(generation.sampler, x1, part, generation.sampling)?);
                    progress(images.len() / size, seeds.len());
                }
                Ok(images)
            }
        }
    }

    /// Evaluations of the network per image, counted: the mean over all images made, to the nearest whole number.
    pub fn evaluations(&self) -> usize {
        let evaluated = match &self.execution {
            Execution::Memory(denoiser) => denoiser.evaluations(),
            Execution::Device(graph) => graph.evaluations(),
        };
        (evaluated as f64 / self.made.max(1) as f64).round() as usize
    }
}

/// x_t as values to look at: strong noise would be black and white only, so what is louder than the image is turned down.
pub fn visible(x: &[f64], sigma: f64) -> Vec<f64> {
    let factor = 1.0 / (2.0 * sigma).max(1.0);
    x.iter().map(|x| 0.5 + factor * (x - 0.5)).collect()
}
