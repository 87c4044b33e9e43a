//! The family between probability flow and Naive: DDIM's form for any linear path, with fresh noise as an option.

use super::affine::{AffineUpdate, ETA, X, X0_HAT, corrupted_from, corrupted_to};
use super::{Result, Sampler, SamplerError, StepContext};

/// How much of the noise is fresh.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fresh {
    /// A part s/sigma' from 0 to 1 in every step, whatever its size: 0 is deterministic, 1 the Naive Sampler. What is in
    /// between adds more and more noise the more steps there are, so it suits few steps and does not converge.
    Part(f64),
    /// At a rate from 0 on per unit of t: `s^2 = sigma'^2 (1 - exp(-rate dt))`. It converges, and is the reverse SDE with
    /// `lambda^2 = rate sigma^2` of choice A6, which corrects errors where sigma is constant and Momentum adds nothing.
    Rate(f64),
}

/// `x' = C' x0_hat + sqrt(sigma'^2 - s^2) / sigma (x - C x0_hat) + s eta` (choice A8).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Churn {
    /// What gives s.
    pub fresh: Fresh,
    /// Fresh noise is multiplied by this; 1 unless the network removes too much (choice A24).
    pub s_noise: f64,
}

impl Churn {
    /// No fresh noise: the probability flow, integrated exactly for a constant `x0_hat`.
    pub fn deterministic() -> Self {
        Self::part(0.0)
    }

    /// A part of fresh noise in every step.
    pub fn part(part: f64) -> Self {
        Churn { fresh: Fresh::Part(part), s_noise: 1.0 }
    }

    /// Fresh noise at a rate.
    pub fn rate(rate: f64) -> Self {
        Churn { fresh: Fresh::Rate(rate), s_noise: 1.0 }
    }

    /// `s / sigma'` for a step of length dt.
    fn share(&self, dt: f64) -> Result<f64> {
        let fail = |option, value, remedy| Err(SamplerError::Option { sampler: "churn", option, value, remedy });
        match self.fresh {
            Fresh::Part(part) if (0.0..=1.0).contains(&part) => Ok(part),
            Fresh::Part(part) => fail("the fresh part", part, "give a part from 0 (deterministic) to 1 (naive)"),
            Fresh::Rate(rate) if rate >= 0.0 && rate.is_finite() => Ok((-(-rate * dt).exp_m1()).sqrt()),
            Fresh::Rate(rate) => fail("the rate", rate, "give a rate from 0 on, such as 5"),
        }
    }
}

impl Sampler for Churn {
    fn name(&self) -> &'static str {
        match self.fresh {
            Fresh::Part(0.0) => "ddim-form",
            Fresh::Part(_) => "churn",
            Fresh::Rate(_) => "churn-rate",
        }
    }

    fn order(&self) -> u32 {
        u32::from(matches!(self.fresh, Fresh::Part(0.0) | Fresh::Rate(_)))
    }

    fn draws(&self) -> usize {
        usize::from(!matches!(self.fresh, Fresh::Part(0.0)))
    }

    fn updates(&self, step: &StepContext) -> Result<Vec<AffineUpdate>> {
        let share = self.share(step.from.t - step.to.t)?;
        let kept = step.to.sigma * (1.0 - share * share).sqrt() / step.sigma(self.name())?;
        let fresh = self.s_noise * share * step.to.sigma;
        Ok(vec![corrupted_to(X0_HAT) + kept * (X - corrupted_from(X0_HAT)) + fresh * ETA])
    }
}
