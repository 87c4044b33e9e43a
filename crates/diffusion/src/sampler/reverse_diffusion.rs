//! Reverse diffusion: the forward step discretised and reversed (Song et al. 2021, appendix E), for `C = alpha I`.

use super::{Blend, Denoiser, Past, Result, Sampler, Stage};

/// `x' = (2 - a) x + G^2 score + G eta` with `a = alpha / alpha'`, `G^2 = sigma^2 - a^2 sigma'^2`.
///
/// VE: a = 1, G^2 = sigma^2 - sigma'^2. VP: a = sqrt(1 - beta), G^2 = beta.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReverseDiffusion;

/// `(alpha / alpha', sigma^2 - (alpha / alpha')^2 sigma'^2)`: the forward step from the one point to the other.
pub(super) fn forward_step(stage: &Stage, sampler: &'static str) -> Result<(f64, f64)> {
    let kept = stage.from.scale_for(sampler)? / stage.to.scale_for(sampler)?;
    let (sigma, sigma_next) = (stage.from.sigma, kept * stage.to.sigma);
    if sigma_next > sigma {
        return Err(super::SamplerError::NoiseGrows { sampler, from: sigma, to: sigma_next });
    }
    Ok((kept, (sigma - sigma_next) * (sigma + sigma_next)))
}

impl Sampler for ReverseDiffusion {
    fn name(&self) -> &'static str {
        "reverse-diffusion"
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

impl ReverseDiffusion {
    fn numbers(&self, stage: &Stage) -> Result<Blend> {
        let sigma = stage.sigma(self.name())?;
        let (kept, added) = forward_step(stage, self.name())?;
        // score = (alpha x0_hat - x) / sigma^2
        let pull = added / (sigma * sigma);
        let of_x0 = pull * stage.from.scale_for(self.name())?;
        Blend::linear(stage, self.name(), [2.0 - kept - pull, of_x0, added.sqrt()])
    }
}
