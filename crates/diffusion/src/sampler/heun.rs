//! Second order with two evaluations: Heun's method in the variable in which the flow is integrated exactly.
//!
//! The probability flow `dx = dC x0_hat + dsigma/sigma (x - C x0_hat)` reads `d(x/sigma) = d(C/sigma) x0_hat`. So
//! `x' = r x + (C' - r C) x0_hat` with `r = sigma'/sigma` is exact for a constant prediction, and the trapezoid
//! `(x0_hat + x0_hat')/2` in its place is exact for one that is linear in C/sigma (as Karras et al. 2022 for C = I).
//! The trapezoid is the predictor's x' plus `(C' - r C) (x0_hat' - x0_hat)/2`, so that only x' is kept.

use super::affine::{AffineUpdate, PREVIOUS_X0_HAT, Predicted, X, X0_HAT, corrupted_from, corrupted_to};
use super::{Result, Sampler, StepContext};

/// Heun's method for the probability flow: predictor, second prediction at its end, trapezoid.
///
/// A step to sigma' = 0 has no second prediction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Heun;

/// `r x + (C' - r C) x0_hat`, the flow from one point to the other for a constant prediction.
pub(super) fn flow(step: &StepContext, sampler: &'static str, x0_hat: Predicted) -> Result<AffineUpdate> {
    let ratio = step.to.sigma / step.sigma(sampler)?;
    Ok(corrupted_to(x0_hat) + ratio * (X - corrupted_from(x0_hat)))
}

impl Sampler for Heun {
    fn name(&self) -> &'static str {
        "heun"
    }

    fn order(&self) -> u32 {
        2
    }

    fn evaluations(&self) -> usize {
        2
    }

    fn draws(&self) -> usize {
        0
    }

    fn updates(&self, step: &StepContext) -> Result<Vec<AffineUpdate>> {
        let predictor = flow(step, self.name(), X0_HAT)?;
        if step.to.sigma == 0.0 {
            return Ok(vec![predictor]);
        }
        let change = 0.5 * (X0_HAT - PREVIOUS_X0_HAT);
        let ratio = step.to.sigma / step.from.sigma;
        Ok(vec![predictor, X + corrupted_to(change) - ratio * corrupted_from(change)])
    }
}
