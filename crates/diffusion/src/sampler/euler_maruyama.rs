//! Euler-Maruyama on the reverse SDE of Song et al. (2021), for `C = alpha I`.

use super::{Blend, Denoiser, Past, Result, Sampler, SamplerError, Stage, scale_of};

/// `x' = x - (f - g^2 score) dt + g sqrt(dt) eta` with `f = (dalpha/alpha) x`, `g^2 = d(sigma^2) - 2 (dalpha/alpha) sigma^2`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EulerMaruyama;

impl Sampler for EulerMaruyama {
    fn name(&self) -> &'static str {
        "euler-maruyama"
    }

    fn order(&self) -> u32 {
        1
    }

    fn blend(&self, stage: &Stage, _: Option<f64>) -> Option<Result<Blend>> {
        Some(self.numbers(stage))
    }

    fn step(&self, stage: &Stage, x: &[f64], denoiser: &mut dyn Denoiser, _: &mut Past) -> Result<Vec<f64>> {
        self.numbers(stage)?.step(stage, x, denoiser)
    }
}

impl EulerMaruyama {
    fn numbers(&self, stage: &Stage) -> Result<Blend> {
        let sigma = stage.sigma(self.name())?;
        let alpha = stage.from.scale_for(self.name())?;
        if alpha == 0.0 {
            let remedy = "its logarithm has no slope there: start from an earlier time, such as 0.999";
            return Err(SamplerError::Option {
                sampler: self.name(),
                option: "alpha at the start",
                value: 0.0,
                remedy,
            });
        }
        let velocity = stage.path.derivative(stage.from.t)?;
        let slope = scale_of(&velocity.map).ok_or(SamplerError::NotAScale { sampler: self.name() })? / alpha;
        let diffusion = (velocity.sigma2 - 2.0 * slope * sigma * sigma).max(0.0);
        let dt = stage.from.t - stage.to.t;
        // score = (alpha x0_hat - x) / sigma^2
        let pull = diffusion * dt / (sigma * sigma);
        Blend::linear(stage, self.name(), [1.0 - slope * dt - pull, pull * alpha, (diffusion * dt).sqrt()])
    }
}
