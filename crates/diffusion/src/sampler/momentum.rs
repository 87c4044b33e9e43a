//! The Momentum Sampler: the reverse SDE in one Euler-Maruyama step (Soft Diffusion, Algorithm 2).

use super::{Blend, Denoiser, Past, Result, Sampler, Stage};

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

    fn blend(&self, stage: &Stage, _: Option<f64>) -> Option<Result<Blend>> {
        let numbers = || {
            let (sigma, lost) = (stage.sigma(self.name())?, stage.lost_variance(self.name())?);
            Ok(Blend { kept: 1.0 - lost / (sigma * sigma), fresh: lost.sqrt(), ..Blend::PREDICTED })
        };
        Some(numbers())
    }

    fn step(&self, stage: &Stage, x: &[f64], denoiser: &mut dyn Denoiser, _: &mut Past) -> Result<Vec<f64>> {
        let sigma = stage.sigma(self.name())?;
        let lost = stage.lost_variance(self.name())?;
        let x0_hat = stage.x0_hat(denoiser, x, stage.from.t)?;
        let y_hat = stage.apply(&stage.from.map, &x0_hat)?;
        let y_next = stage.apply(&stage.to.map, &x0_hat)?;
        let eta = stage.noise(0, x.len())?;
        let (rate, spread) = (lost / (sigma * sigma), lost.sqrt());
        let update = |i: usize| {
            let eps_hat = y_hat[i] - x[i];
            let z = x[i] + rate * eps_hat + spread * eta[i];
            z + (y_next[i] - y_hat[i])
        };
        Ok((0..x.len()).map(update).collect())
    }
}
