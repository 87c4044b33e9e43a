//! The Momentum Sampler: the reverse SDE in one Euler-Maruyama step (Soft Diffusion, Algorithm 2).

use super::affine::{AffineUpdate, ETA, X, X0_HAT, corrupted_from, corrupted_to};
use super::{Result, Sampler, StepContext};

/// Soft Diffusion, Algorithm 2. With C = I it is the reverse diffusion of the VE diffusion (Song et al. 2021).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Momentum;

impl Sampler for Momentum {
    fn name(&self) -> &'static str {
        "momentum"
    }

    fn order(&self) -> u32 {
        1
    }

    fn updates(&self, step: &StepContext) -> Result<Vec<AffineUpdate>> {
        let (sigma, lost) = (step.sigma(self.name())?, step.lost_variance(self.name())?);
        let y_hat = corrupted_from(X0_HAT);
        let eps_hat = y_hat - X;
        let z = X + lost / (sigma * sigma) * eps_hat + lost.sqrt() * ETA;
        Ok(vec![z + (corrupted_to(X0_HAT) - y_hat)])
    }
}
