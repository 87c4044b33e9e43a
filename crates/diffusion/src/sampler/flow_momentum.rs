//! The Probability Flow Momentum Sampler: the ODE with the same marginals (Soft Diffusion, appendix "Probability Flow
//! ODE").

use super::affine::{AffineUpdate, X, X0_HAT, corrupted_from, corrupted_to};
use super::{Result, Sampler, StepContext};

/// `x' = x + (C' - C) x0_hat + 1/2 (1 - sigma'^2 / sigma^2) (C x0_hat - x)`: deterministic.
///
/// Taken to sigma' = 0 it removes half of the noise only, so let the last step return `x0_hat` (choice A8).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowMomentum;

impl Sampler for FlowMomentum {
    fn name(&self) -> &'static str {
        "flow-momentum"
    }

    fn order(&self) -> u32 {
        1
    }

    fn draws(&self) -> usize {
        0
    }

    fn updates(&self, step: &StepContext) -> Result<Vec<AffineUpdate>> {
        let (sigma, lost) = (step.sigma(self.name())?, step.lost_variance(self.name())?);
        let y_hat = corrupted_from(X0_HAT);
        Ok(vec![X + (corrupted_to(X0_HAT) - y_hat) + 0.5 * lost / (sigma * sigma) * (y_hat - X)])
    }
}
