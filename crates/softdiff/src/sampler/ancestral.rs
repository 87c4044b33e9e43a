//! Ancestral sampling: the posterior `q(x' | x, x0_hat)` of the forward chain (Ho et al. 2020, Eq. 6-7), for `C = alpha I`.

use super::reverse_diffusion::forward_step;
use super::{Denoiser, Past, Result, Sampler, Stage};

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

    fn step(&self, stage: &Stage, x: &[f64], denoiser: &mut dyn Denoiser, _: &mut Past) -> Result<Vec<f64>> {
        let sigma = stage.sigma(self.name())?;
        let (kept, added) = forward_step(stage, self.name())?;
        let (alpha_next, sigma_next) = (stage.to.scale(self.name())?, stage.to.sigma);
        let x0_hat = stage.x0_hat(denoiser, x, stage.from.t)?;
        let eta = stage.noise(0, x.len())?;
        let sigma2 = sigma * sigma;
        let (of_x, of_x0) = (kept * sigma_next * sigma_next / sigma2, alpha_next * added / sigma2);
        let spread = sigma_next * added.sqrt() / sigma;
        Ok((0..x.len()).map(|i| of_x * x[i] + of_x0 * x0_hat[i] + spread * eta[i]).collect())
    }
}
