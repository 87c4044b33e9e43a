//! The reverse process one step at a time, for those who look at every step or change what comes of it.

use super::{Model, NetworkDenoiser};
use crate::path::Path;
use crate::sampler::{Result, ReverseSteps, Sampler, Sampling, Watched};
use softdiff_engine::Device;
use std::sync::Arc;

/// Images at one time on their way.
#[derive(Clone, Debug, PartialEq)]
pub struct DenoiseStep {
    /// From 1 to 0.
    pub t: f64,
    /// x_t.
    pub xt: Vec<f64>,
    /// The clean images predicted from them; at t = 0 the images themselves.
    pub x0_hat: Vec<f64>,
}

/// The steps of a sampler, computed as they are asked for: the start of every step, and at last the finished images.
/// [`SampleRequest::denoise_steps`](super::SampleRequest::denoise_steps) makes it.
pub struct DenoiseSteps {
    path: Arc<Path>,
    sampler: Box<dyn Sampler>,
    sampling: Sampling,
    denoiser: NetworkDenoiser,
    steps: ReverseSteps,
    ended: bool,
}

impl DenoiseSteps {
    pub(super) fn new(
        model: &Model,
        device: &Device,
        sampler: Box<dyn Sampler>,
        sampling: Sampling,
        seeds: &[u64],
    ) -> Result<DenoiseSteps> {
        let denoiser = model.denoiser(device, seeds.len().max(1), model.recipe.train.precision)?;
        let steps = ReverseSteps::new(&model.path, &sampling, model.starts(seeds), seeds)?;
        Ok(DenoiseSteps { path: model.path.clone(), sampler, sampling, denoiser, steps, ended: false })
    }
}

impl Iterator for DenoiseSteps {
    type Item = Result<DenoiseStep>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let (t, xt, mut first) = (self.steps.time(), self.steps.images(), None);
        let mut denoiser = Watched {
            inner: &mut self.denoiser,
            look: |answer: &[f64]| {
                first.get_or_insert_with(|| answer.to_vec());
                Ok(())
            },
        };
        let stepped = self.steps.advance(&self.path, &*self.sampler, &self.sampling, &mut denoiser);
        self.ended = !matches!(stepped, Ok(true));
        Some(stepped.map(|_| DenoiseStep { t, x0_hat: first.unwrap_or_else(|| xt.clone()), xt }))
    }
}
