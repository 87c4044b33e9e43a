//! The sampler of inverse heat dissipation (Rissanen, Heinonen and Solin 2023, Algorithm 2): a network that predicts the
//! image one step less corrupted, and a little noise.

use super::{Denoiser, Past, Result, Sampler, SamplerError, StepContext, check_finite};

/// `x' = mu(x, t) + delta eta` with mu the prediction of `C' x_0` and `delta = s_noise sigma'`; the last step returns mu.
///
/// IHDM trains with a noise of 0.01 at all times and samples with delta = 0.0125, which is s_noise = 1.25.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ihdm {
    /// Noise of sampling over that of training.
    pub s_noise: f64,
}

impl Ihdm {
    fn mean(&self, step: &StepContext, x: &[f64], denoiser: &mut dyn Denoiser) -> Result<Vec<f64>> {
        let mean = denoiser.one_step(x, step.from.t, step.to.t)?;
        if mean.len() != x.len() {
            return Err(SamplerError::Size { what: "the denoiser's answer", found: mean.len(), expected: x.len() });
        }
        check_finite("the denoiser's answer", &mean, step.from.t)?;
        Ok(mean)
    }
}

impl Sampler for Ihdm {
    fn name(&self) -> &'static str {
        "ihdm"
    }

    fn is_affine(&self) -> bool {
        false
    }

    fn order(&self) -> u32 {
        // The size of the step is the network's.
        0
    }

    fn step(&self, step: &StepContext, x: &[f64], denoiser: &mut dyn Denoiser, _: &mut Past) -> Result<Vec<f64>> {
        let mut next = self.mean(step, x, denoiser)?;
        let delta = self.s_noise * step.to.sigma;
        next.iter_mut().zip(step.noise(0, x.len())?).for_each(|(x, eta)| *x += delta * eta);
        Ok(next)
    }

    fn finish(&self, step: &StepContext, x: &[f64], denoiser: &mut dyn Denoiser) -> Result<Vec<f64>> {
        self.mean(step, x, denoiser)
    }
}
