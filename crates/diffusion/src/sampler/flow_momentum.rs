//! The Probability Flow Momentum Sampler: the ODE with the same marginals (Soft Diffusion, appendix "Probability Flow
//! ODE").

use super::{Blend, Denoiser, Past, Result, Sampler, Stage};

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

    fn blend(&self, stage: &Stage, _: Option<f64>) -> Option<Result<Blend>> {
        let numbers = || {
            let (sigma, lost) = (stage.sigma(self.name())?, stage.lost_variance(self.name())?);
            Ok(Blend { kept: 1.0 - 0.5 * lost / (sigma * sigma), ..Blend::PREDICTED })
        };
        Some(numbers())
    }

    fn step(&self, stage: &Stage, x: &[f64], denoiser: &mut dyn Denoiser, _: &mut Past) -> Result<Vec<f64>> {
        let sigma = stage.sigma(self.name())?;
        let rate = 0.5 * stage.lost_variance(self.name())? / (sigma * sigma);
        let x0_hat = stage.x0_hat(denoiser, x, stage.from.t)?;
        let y_hat = stage.apply(&stage.from.map, &x0_hat)?;
        let y_next = stage.apply(&stage.to.map, &x0_hat)?;
        Ok((0..x.len()).map(|i| x[i] + rate * (y_hat[i] - x[i]) + (y_next[i] - y_hat[i])).collect())
    }
}
