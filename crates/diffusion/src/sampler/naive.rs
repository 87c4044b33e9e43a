//! The Naive Sampler: predict the clean image and corrupt it again (Soft Diffusion, Algorithm 1).
//!
//! It does not converge: its variance settles at `V^2 / (2V - sigma^2)` with `V = c^2 s^2 + sigma^2`, half of what it
//! should be, for any number of steps. That is the lack of diversity that the paper sees.

use super::affine::{AffineUpdate, ETA, X0_HAT, corrupted_to};
use super::{Result, Sampler, StepContext};

/// Soft Diffusion, Algorithm 1: `x' = C' x0_hat + sigma' eta`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Naive;

impl Sampler for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn order(&self) -> u32 {
        0
    }

    fn updates(&self, step: &StepContext) -> Result<Vec<AffineUpdate>> {
        Ok(vec![corrupted_to(X0_HAT) + step.to.sigma * ETA])
    }
}
