//! Second order with two evaluations: Heun's method in the variable in which the flow is integrated exactly.
//!
//! The probability flow `dx = dC x0_hat + dsigma/sigma (x - C x0_hat)` reads `d(x/sigma) = d(C/sigma) x0_hat`. So
//! `x' = r x + (C' - r C) x0_hat` with `r = sigma'/sigma` is exact for a constant prediction, and the trapezoid
//! `(x0_hat + x0_hat')/2` in its place is exact for one that is linear in C/sigma (as Karras et al. 2022 for C = I).
//! The trapezoid is the predictor's x' plus `(C' - r C) (x0_hat' - x0_hat)/2`, which needs no x: so a graph does it.

use super::{Blend, Denoiser, Past, Result, Sampler, Stage};

/// Heun's method for the probability flow: predictor, second prediction at its end, trapezoid.
///
/// A step to sigma' = 0 has no second prediction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Heun;

/// `r x + (C' - r C) x0_hat`, the flow from one point to the other for a constant prediction.
pub(super) fn flow(stage: &Stage, sampler: &'static str, x: &[f64], x0_hat: &[f64]) -> Result<Vec<f64>> {
    let ratio = stage.to.sigma / stage.sigma(sampler)?;
    let y_hat = stage.apply(&stage.from.map, x0_hat)?;
    let mut next = stage.apply(&stage.to.map, x0_hat)?;
    next.iter_mut().zip(x.iter().zip(&y_hat)).for_each(|(next, (x, y))| *next += ratio * (x - y));
    Ok(next)
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

    fn blend(&self, stage: &Stage, _: Option<f64>) -> Option<Result<Blend>> {
        Some(stage.sigma(self.name()).map(|sigma| Blend { kept: stage.to.sigma / sigma, ..Blend::PREDICTED }))
    }

    fn correction(&self, stage: &Stage) -> Option<Blend> {
        // With h = r (x0_hat' - x0_hat)/2, the sum above is C' h / r + (x' - C h).
        let ratio = stage.to.sigma / stage.from.sigma;
        let changed = Blend { drawn: 1.0 / ratio, kept: 1.0, fresh: 0.0, base: 0.0, ahead: 0.5 * ratio };
        (stage.to.sigma > 0.0).then_some(changed)
    }

    fn step(&self, stage: &Stage, x: &[f64], denoiser: &mut dyn Denoiser, _: &mut Past) -> Result<Vec<f64>> {
        let x0_hat = stage.x0_hat(denoiser, x, stage.from.t)?;
        let predicted = flow(stage, self.name(), x, &x0_hat)?;
        if stage.to.sigma == 0.0 {
            return Ok(predicted);
        }
        let second = stage.x0_hat(denoiser, &predicted, stage.to.t)?;
        let mean: Vec<f64> = x0_hat.iter().zip(&second).map(|(a, b)| 0.5 * (a + b)).collect();
        flow(stage, self.name(), x, &mean)
    }
}
