//! Ancestral sampling: the posterior `q(x' | x, x0_hat)` of the forward chain (Ho et al. 2020, Eq. 6-7), for `C = alpha I`.

use super::affine::{AffineUpdate, ETA, X, X0_HAT, corrupted_to};
use super::reverse_diffusion::forward_step;
use super::{Result, Sampler, StepContext};

/// DDPM's sampler. With `a = alpha / alpha'` and `b = sigma^2 - a^2 sigma'^2`:
/// `x' = (a sigma'^2 x + alpha' b x0_hat) / sigma^2 + sigma' sqrt(b) / sigma eta`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ancestral;

impl Sampler for Ancestral {
    fn name(&self) -> &'static str {
        "ancestral"
    }

    fn order(&self) -> u32 {
        1
    }

    fn updates(&self, step: &StepContext) -> Result<Vec<AffineUpdate>> {
        let (sigma, sigma_next) = (step.sigma(self.name())?, step.to.sigma);
        let (a, b) = forward_step(step, self.name())?;
        let mean = 1.0 / (sigma * sigma) * (a * sigma_next * sigma_next * X + b * corrupted_to(X0_HAT));
        Ok(vec![mean + sigma_next * b.sqrt() / sigma * ETA])
    }
}
