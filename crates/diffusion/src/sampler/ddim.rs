//! DDIM (Song, Meng, Ermon 2021, Eq. 12 and 16), for `C = alpha I`.

use super::affine::{AffineUpdate, ETA, X, X0_HAT, corrupted_from, corrupted_to};
use super::reverse_diffusion::forward_step;
use super::{Result, Sampler, SamplerError, StepContext};

/// `x' = alpha' x0_hat + sqrt(sigma'^2 - s^2) eps_hat + s eta`, `s = eta sigma'/sigma sqrt(sigma^2 - (alpha/alpha')^2 sigma'^2)`.
///
/// eta = 0 is deterministic; eta = 1 is [`super::Ancestral`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ddim {
    /// How much of DDPM's noise is added, from 0 to 1.
    pub eta: f64,
}

impl Sampler for Ddim {
    fn name(&self) -> &'static str {
        "ddim"
    }

    fn order(&self) -> u32 {
        1
    }

    fn draws(&self) -> usize {
        usize::from(self.eta != 0.0)
    }

    fn updates(&self, step: &StepContext) -> Result<Vec<AffineUpdate>> {
        if !(0.0..=1.0).contains(&self.eta) {
            let remedy = "give a number from 0 (deterministic) to 1 (DDPM)";
            return Err(SamplerError::Option { sampler: self.name(), option: "eta", value: self.eta, remedy });
        }
        let sigma = step.sigma(self.name())?;
        let (_, added) = forward_step(step, self.name())?;
        let s = self.eta * step.to.sigma / sigma * added.sqrt();
        let eps_hat = 1.0 / sigma * (X - corrupted_from(X0_HAT));
        let kept = (step.to.sigma * step.to.sigma - s * s).max(0.0).sqrt();
        Ok(vec![corrupted_to(X0_HAT) + kept * eps_hat + s * ETA])
    }
}
