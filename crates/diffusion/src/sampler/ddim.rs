//! DDIM (Song, Meng, Ermon 2021, Eq. 12 and 16), for `C = alpha I`.

use super::reverse_diffusion::forward_step;
use super::{Blend, Denoiser, Past, Result, Sampler, SamplerError, Stage};

/// `x' = alpha' x0_hat + sqrt(sigma'^2 - s^2) eps_hat + s eta`, `s = eta sigma'/sigma sqrt(sigma^2 - (alpha/alpha')^2 sigma'^2)`.
///
/// eta = 0 is deterministic; eta = 1 is [`super::Ancestral`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ddim {
    /// How much of DDPM's noise is added, from 0 to 1.
    pub eta: f64,
}

impl Sampler for Ddim {
    fn name(&self) -> &'static str {
        "ddim"
    }

    fn order(&self) -> u32 {
        1
    }

    fn draws(&self) -> usize {
        usize::from(self.eta != 0.0)
    }

    fn blend(&self, stage: &Stage, _: Option<f64>) -> Option<Result<Blend>> {
        Some(self.numbers(stage))
    }

    fn step(&self, stage: &Stage, x: &[f64], denoiser: &mut dyn Denoiser, _: &mut Past) -> Result<Vec<f64>> {
        self.numbers(stage)?.step(stage, x, denoiser)
    }
}

impl Ddim {
    fn numbers(&self, stage: &Stage) -> Result<Blend> {
        if !(0.0..=1.0).contains(&self.eta) {
            let remedy = "give a number from 0 (deterministic) to 1 (DDPM)";
            return Err(SamplerError::Option { sampler: self.name(), option: "eta", value: self.eta, remedy });
        }
        let sigma = stage.sigma(self.name())?;
        let (_, added) = forward_step(stage, self.name())?;
        let fresh = self.eta * stage.to.sigma / sigma * added.sqrt();
        let kept = (stage.to.sigma * stage.to.sigma - fresh * fresh).max(0.0).sqrt() / sigma;
        Ok(Blend { kept, fresh, ..Blend::PREDICTED })
    }
}
