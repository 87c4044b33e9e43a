//! Ancestral sampling: the posterior `q(x' | x, x0_hat)` of the forward chain (Ho et al. 2020, Eq. 6-7), for `C = alpha I`.

use super::reverse_diffusion::forward_step;
use super::{Blend, Denoiser, Past, Result, Sampler, Stage};

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

    fn blend(&self, stage: &Stage, _: Option<f64>) -> Option<Result<Blend>> {
        Some(self.numbers(stage))
    }

    fn step(&self, stage: &Stage, x: &[f64], denoiser: &mut dyn Denoiser, _: &mut Past) -> Result<Vec<f64>> {
        self.numbers(stage)?.step(stage, x, denoiser)
    }
}

impl Ancestral {
    fn numbers(&self, stage: &Stage) -> Result<Blend> {
        let sigma = stage.sigma(self.name())?;
        let (kept, added) = forward_step(stage, self.name())?;
        let (alpha_next, sigma_next) = (stage.to.scale_for(self.name())?, stage.to.sigma);
        let sigma2 = sigma * sigma;
        let (of_x, of_x0) = (kept * sigma_next * sigma_next / sigma2, alpha_next * added / sigma2);
        Blend::linear(stage, self.name(), [of_x, of_x0, sigma_next * added.sqrt() / sigma])
    }
}
