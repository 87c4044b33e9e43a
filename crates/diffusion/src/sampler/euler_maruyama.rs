//! Euler-Maruyama on the reverse SDE of Song et al. (2021), for `C = alpha I`.

use super::affine::{AffineUpdate, ETA, X};
use super::{Result, Sampler, SamplerError, StepContext};
use crate::path::scale_of;

/// `x' = x - (f - g^2 score) dt + g sqrt(dt) eta` with `f = (dalpha/alpha) x`, `g^2 = d(sigma^2) - 2 (dalpha/alpha) sigma^2`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EulerMaruyama;

impl Sampler for EulerMaruyama {
    fn name(&self) -> &'static str {
        "euler-maruyama"
    }

    fn order(&self) -> u32 {
        1
    }

    fn updates(&self, step: &StepContext) -> Result<Vec<AffineUpdate>> {
        let alpha = step.from.scale_for(self.name())?;
        if alpha == 0.0 {
            let remedy = "its logarithm has no slope there: start from an earlier time, such as 0.999";
            let option = "alpha at the start";
            return Err(SamplerError::Option { sampler: self.name(), option, value: 0.0, remedy });
        }
        let velocity = step.path.derivative(step.from.t)?;
        let slope = scale_of(&velocity.map).ok_or(SamplerError::NotAScale { sampler: self.name() })? / alpha;
        let sigma = step.sigma(self.name())?;
        let g2 = (velocity.sigma2 - 2.0 * slope * sigma * sigma).max(0.0);
        let dt = step.from.t - step.to.t;
        Ok(vec![X - dt * (slope * X - g2 * step.score(self.name())?) + (g2 * dt).sqrt() * ETA])
    }
}
