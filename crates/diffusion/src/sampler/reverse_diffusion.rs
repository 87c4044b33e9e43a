//! Reverse diffusion: the forward step discretised and reversed (Song et al. 2021, appendix E), for `C = alpha I`.

use super::affine::{AffineUpdate, ETA, X};
use super::{Result, Sampler, StepContext};

/// `x' = (2 - a) x + G^2 score + G eta` with `a = alpha / alpha'`, `G^2 = sigma^2 - a^2 sigma'^2`.
///
/// VE: a = 1, G^2 = sigma^2 - sigma'^2. VP: a = sqrt(1 - beta), G^2 = beta.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReverseDiffusion;

/// `(alpha / alpha', sigma^2 - (alpha / alpha')^2 sigma'^2)`: the forward step from the one point to the other.
pub(super) fn forward_step(step: &StepContext, sampler: &'static str) -> Result<(f64, f64)> {
    let kept = step.from.scale_for(sampler)? / step.to.scale_for(sampler)?;
    let (sigma, sigma_next) = (step.from.sigma, kept * step.to.sigma);
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

    fn updates(&self, step: &StepContext) -> Result<Vec<AffineUpdate>> {
        let (a, g2) = forward_step(step, self.name())?;
        Ok(vec![(2.0 - a) * X + g2 * step.score(self.name())? + g2.sqrt() * ETA])
    }
}
