//! The Naive Sampler: predict the clean image and corrupt it again (Soft Diffusion, Algorithm 1).
//!
//! It does not converge: its variance settles at `V^2 / (2V - sigma^2)` with `V = c^2 s^2 + sigma^2`, half of what it
//! should be, for any number of steps. That is the lack of diversity that the paper sees.

use super::{Blend, Denoiser, Past, Result, Sampler, Stage};

/// Soft Diffusion, Algorithm 1: `x' = C' x0_hat + sigma' eta`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Naive;

impl Sampler for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn order(&self) -> u32 {
        0
    }

    fn blend(&self, stage: &Stage, _: Option<f64>) -> Option<Result<Blend>> {
        Some(Ok(Blend { fresh: stage.to.sigma, ..Blend::PREDICTED }))
    }

    fn step(&self, stage: &Stage, x: &[f64], denoiser: &mut dyn Denoiser, _: &mut Past) -> Result<Vec<f64>> {
        let x0_hat = stage.x0_hat(denoiser, x, stage.from.t)?;
        let mut next = stage.apply(&stage.to.map, &x0_hat)?;
        next.iter_mut().zip(stage.noise(0, x.len())?).for_each(|(x, eta)| *x += stage.to.sigma * eta);
        Ok(next)
    }
}
