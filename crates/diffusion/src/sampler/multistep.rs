//! Second order with one evaluation: the prediction is extrapolated from this step and the one before.

use super::heun::flow;
use super::{Blend, Denoiser, Past, Result, Sampler, Stage};

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

    fn blend(&self, stage: &Stage, before: Option<f64>) -> Option<Result<Blend>> {
        let ahead = match before {
            Some(before) if stage.to.sigma > 0.0 && before > stage.from.t => {
                0.5 * (stage.from.t - stage.to.t) / (before - stage.from.t)
            }
            _ => 0.0,
        };
        Some(stage.sigma(self.name()).map(|sigma| Blend { kept: stage.to.sigma / sigma, ahead, ..Blend::PREDICTED }))
    }

    fn step(&self, stage: &Stage, x: &[f64], denoiser: &mut dyn Denoiser, past: &mut Past) -> Result<Vec<f64>> {
        let x0_hat = stage.x0_hat(denoiser, x, stage.from.t)?;
        let next = match &past.last {
            Some((previous, point)) if stage.to.sigma > 0.0 && previous.len() == x.len() && point.t > stage.from.t => {
                let ahead = 0.5 * (stage.from.t - stage.to.t) / (point.t - stage.from.t);
                let middle: Vec<f64> =
                    x0_hat.iter().zip(previous).map(|(now, then)| now + ahead * (now - then)).collect();
                flow(stage, self.name(), x, &middle)?
            }
            _ => flow(stage, self.name(), x, &x0_hat)?,
        };
        past.last = Some((x0_hat, stage.from.clone()));
        Ok(next)
    }
}
