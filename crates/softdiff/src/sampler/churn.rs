//! The family between probability flow and Naive: DDIM's form for any linear path, with fresh noise as an option.

use super::{Denoiser, Past, Result, Sampler, SamplerError, Stage};

/// `x' = C' x0_hat + sqrt(sigma'^2 - s^2) / sigma (x - C x0_hat) + s eta` with `s = churn sigma'` (choice A8).
///
/// churn 0 is deterministic and exact where `x0_hat` is constant; churn 1 is the Naive Sampler. In between, a fixed
/// churn adds more and more noise the more steps there are, so it suits few steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Churn {
    /// Part of the noise that is fresh, from 0 to 1.
    pub churn: f64,
    /// Fresh noise is multiplied by this; 1 unless the network removes too much (choice A24).
    pub s_noise: f64,
}

impl Churn {
    /// No fresh noise: the probability flow, integrated exactly for a constant `x0_hat`.
    pub fn deterministic() -> Self {
        Churn { churn: 0.0, s_noise: 1.0 }
    }
}

impl Sampler for Churn {
    fn name(&self) -> &'static str {
        "churn"
    }

    fn order(&self) -> u32 {
        u32::from(self.churn == 0.0)
    }

    fn draws(&self) -> usize {
        usize::from(self.churn != 0.0)
    }

    fn step(&self, stage: &Stage, x: &[f64], denoiser: &mut dyn Denoiser, _: &mut Past) -> Result<Vec<f64>> {
        if !(0.0..=1.0).contains(&self.churn) {
            let remedy = "give a part from 0 (deterministic) to 1 (naive)";
            return Err(SamplerError::Option { sampler: self.name(), option: "churn", value: self.churn, remedy });
        }
        let sigma = stage.sigma(self.name())?;
        let x0_hat = stage.x0_hat(denoiser, x, stage.from.t)?;
        let y_hat = stage.apply(&stage.from.map, &x0_hat)?;
        let mut next = stage.apply(&stage.to.map, &x0_hat)?;
        let kept = stage.to.sigma * (1.0 - self.churn * self.churn).sqrt() / sigma;
        next.iter_mut().zip(x.iter().zip(&y_hat)).for_each(|(next, (x, y))| *next += kept * (x - y));
        if self.churn > 0.0 {
            let fresh = self.s_noise * self.churn * stage.to.sigma;
            next.iter_mut().zip(stage.noise(0, x.len())?).for_each(|(next, eta)| *next += fresh * eta);
        }
        Ok(next)
    }
}
