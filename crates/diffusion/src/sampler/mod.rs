//! Sampling: from p_1 back to images (Soft Diffusion, section 3.2), one file per sampler.
//!
//! A [`Sampler`] is one step from (C, sigma) to (C', sigma'), written as an affine expression where it is one, so that the
//! same text runs on a CPU and as a graph on a GPU ([`affine`]); [`run`] is the only loop. Everything rests on a [`Denoiser`], `x0_hat = E[x0 | x_t]`, from which the score follows (Eq. 8):
//! `score = (C_t x0_hat - x_t) / sigma_t^2`. Replacing the single image alpha of the paper's derivation by `x0_hat` is
//! exact: `dC/dt E[x0|x] - 1/2 d(sigma^2)/dt score` is the velocity of the marginals of `x_t = C_t x_0 + sigma_t eta`.

pub mod affine;
mod ancestral;
mod centred;
mod churn;
mod ddim;
mod dormand_prince;
mod error;
mod euler_maruyama;
mod flow_momentum;
mod heun;
mod ihdm;
mod likelihood;
mod momentum;
mod multistep;
mod naive;
mod oracle;
mod predictor_corrector;
mod registry;
mod reverse_diffusion;
mod run;
mod steps;
mod watched;

pub use affine::{AffineUpdate, Predicted};
pub use ancestral::Ancestral;
pub use churn::{Churn, Fresh};
pub use ddim::Ddim;
pub use dormand_prince::{DormandPrince, Tolerance};
pub use error::{Result, SamplerError};
pub use euler_maruyama::EulerMaruyama;
pub use flow_momentum::FlowMomentum;
pub use heun::Heun;
pub use ihdm::Ihdm;
pub use likelihood::{Likelihood, Trace, log_likelihood, log_likelihoods};
pub use momentum::Momentum;
pub use multistep::Multistep;
pub use naive::Naive;
pub use oracle::{GaussianPart, Oracle};
pub use predictor_corrector::PredictorCorrector;
pub use registry::{Options, SAMPLERS, SamplerEntry, by_name, names, needs_one_step, needs_scale};
pub use reverse_diffusion::ReverseDiffusion;
pub use run::{Ending, MOST_STEPS, Sampling, SamplingState, StepPosition, run, sample, sample_watched};
pub use steps::{ReverseSteps, noise};
pub use watched::Watched;

use crate::objective::ObjectiveError;
use crate::path::{Moment, Path};
use std::borrow::Cow;

/// The prediction of clean images: `x0_hat = E[x0 | x_t]` for a batch at one time.
pub trait Denoiser {
    /// As many values as `xt`.
    fn x0_hat(&mut self, xt: &[f64], t: f64) -> Result<Vec<f64>>;

    /// `C_(t_next) x_0` predicted from x_t: what one-step networks know instead of the clean image.
    fn one_step(&mut self, _xt: &[f64], _t: f64, _t_next: f64) -> Result<Vec<f64>> {
        Err(ObjectiveError::NotOneStep.into())
    }
}

impl<F: FnMut(&[f64], f64) -> Result<Vec<f64>>> Denoiser for F {
    fn x0_hat(&mut self, xt: &[f64], t: f64) -> Result<Vec<f64>> {
        self(xt, t)
    }
}

/// Everything one step reads besides x.
pub struct StepContext<'a> {
    /// The path, for samplers that need its derivatives.
    pub path: &'a Path,
    /// Where the step starts: t, C and sigma.
    pub from: &'a Moment,
    /// Where it ends: t', C' and sigma'.
    pub to: &'a Moment,
    /// Where the step before started; none for the first.
    pub before: Option<f64>,
    /// Standard normal noise, [`Sampler::draws`] times the size of the batch. Empty where x is on a device.
    pub eta: &'a [f64],
}

impl StepContext<'_> {
    /// Noise number `draw` of this step.
    fn noise(&self, draw: usize, len: usize) -> Result<&[f64]> {
        let found = self.eta.len();
        self.eta.get(draw * len..(draw + 1) * len).ok_or(SamplerError::Size {
            what: "the noise of a step",
            found,
            expected: (draw + 1) * len,
        })
    }

    /// sigma at the start, which must not be zero.
    pub fn sigma(&self, sampler: &'static str) -> Result<f64> {
        if self.from.sigma > 0.0 { Ok(self.from.sigma) } else { Err(SamplerError::NoNoise { sampler, t: self.from.t }) }
    }

    /// `sigma^2 - sigma'^2`, which must not be negative.
    pub fn lost_variance(&self, sampler: &'static str) -> Result<f64> {
        let (from, to) = (self.from.sigma, self.to.sigma);
        if to > from {
            return Err(SamplerError::NoiseGrows { sampler, from, to });
        }
        Ok((from - to) * (from + to))
    }

    /// The score at the start: `(C x0_hat - x) / sigma^2` (Eq. 8).
    pub fn score(&self, sampler: &'static str) -> Result<AffineUpdate> {
        let sigma = self.sigma(sampler)?;
        Ok(1.0 / (sigma * sigma) * (affine::corrupted_from(affine::X0_HAT) - affine::X))
    }
}

impl Moment {
    /// alpha of `C = alpha I`, for a sampler that needs it.
    fn scale_for(&self, sampler: &'static str) -> Result<f64> {
        self.scale().ok_or(SamplerError::NotAScale { sampler })
    }
}

/// What a sampler remembers of the evaluation before.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Past {
    x0_hat: Option<Vec<f64>>,
}

/// A way back from (C, sigma) to (C', sigma').
///
/// Write [`updates`](Sampler::updates) where a step is affine in x, x0_hat and noise: it then runs on every device. A step
/// of another form is written as [`step`](Sampler::step), with [`is_affine`](Sampler::is_affine) false.
pub trait Sampler: Send + Sync {
    /// One word for files and messages.
    fn name(&self) -> &'static str;

    /// Order of convergence to the marginals in the size of the step; 0 for none.
    fn order(&self) -> u32;

    /// Evaluations of the denoiser in one step; at least so many for an adaptive one.
    fn evaluations(&self) -> usize {
        1
    }

    /// Noise images used in one step.
    fn draws(&self) -> usize {
        1
    }

    /// Whether the step is [`updates`](Sampler::updates).
    fn is_affine(&self) -> bool {
        true
    }

    /// The step, one update for each evaluation of the denoiser: the first predicts x0_hat at the start of the step, the
    /// others at its end. Noise goes into the first one.
    fn updates(&self, _step: &StepContext) -> Result<Vec<AffineUpdate>> {
        Err(SamplerError::NotAffine { sampler: self.name() })
    }

    /// x' at `step.to` from x at `step.from`: a function of its arguments alone.
    fn step(&self, step: &StepContext, x: &[f64], denoiser: &mut dyn Denoiser, past: &mut Past) -> Result<Vec<f64>> {
        let mut x = Cow::Borrowed(x);
        for (evaluation, update) in self.updates(step)?.iter().enumerate() {
            let at = if evaluation == 0 { step.from } else { step.to };
            x = Cow::Owned(update.apply(step, at, &x, denoiser, past)?);
        }
        Ok(x.into_owned())
    }

    /// The last step of all, where the clean prediction is returned (choice A8).
    fn finish(&self, step: &StepContext, x: &[f64], denoiser: &mut dyn Denoiser) -> Result<Vec<f64>> {
        checked_x0_hat(denoiser, x, step.from.t)
    }
}

/// `x0_hat` of the right size and finite, or what is wrong with it.
fn checked_x0_hat(denoiser: &mut dyn Denoiser, x: &[f64], t: f64) -> Result<Vec<f64>> {
    let x0_hat = denoiser.x0_hat(x, t)?;
    if x0_hat.len() != x.len() {
        return Err(SamplerError::Size { what: "the denoiser's answer", found: x0_hat.len(), expected: x.len() });
    }
    check_finite("the denoiser's answer", &x0_hat, t)?;
    Ok(x0_hat)
}

fn check_finite(what: &'static str, values: &[f64], t: f64) -> Result<()> {
    match values.iter().position(|v| !v.is_finite()) {
        Some(index) => Err(SamplerError::NotFinite { what, t, index }),
        None => Ok(()),
    }
}
