//! Second order with one evaluation: the prediction is extrapolated from this step and the one before.

use super::affine::{AffineUpdate, PREVIOUS_X0_HAT, X0_HAT};
use super::heun::flow;
use super::{Result, Sampler, StepContext};

/// A two-step Adams-Bashforth method for the probability flow, in the variable of [`super::Heun`].
///
/// `x0_hat` in the middle of the step is `x0_hat + (x0_hat - previous) h / (2 h_previous)`, with h the steps in time.
/// The first step, and a step to sigma' = 0, take `x0_hat` as it is. (DPM-Solver++ 2M does so in the logarithm of the
/// signal-to-noise ratio, which a matrix C does not have.)
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Multistep;

impl Sampler for Multistep {
    fn name(&self) -> &'static str {
        "multistep"
    }

    fn order(&self) -> u32 {
        2
    }

    fn draws(&self) -> usize {
        0
    }

    fn updates(&self, step: &StepContext) -> Result<Vec<AffineUpdate>> {
        let ahead = match step.before {
            Some(before) if step.to.sigma > 0.0 && before > step.from.t => {
                0.5 * (step.from.t - step.to.t) / (before - step.from.t)
            }
            _ => 0.0,
        };
        Ok(vec![flow(step, self.name(), X0_HAT + ahead * (X0_HAT - PREVIOUS_X0_HAT))?])
    }
}
