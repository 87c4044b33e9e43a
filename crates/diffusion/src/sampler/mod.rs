//! Sampling: from p_1 back to images (Soft Diffusion, section 3.2), one file per sampler.
//!
//! A [`Sampler`] is one pure `step` from (C, sigma) to (C', sigma') that takes its noise as an argument; [`sample`] is
//! the only loop. Everything rests on a [`Denoiser`], `x0_hat = E[x0 | x_t]`, from which the score follows (Eq. 8):
//! `score = (C_t x0_hat - x_t) / sigma_t^2`. Replacing the single image alpha of the paper's derivation by `x0_hat` is
//! exact: `dC/dt E[x0|x] - 1/2 d(sigma^2)/dt score` is the velocity of the marginals of `x_t = C_t x_0 + sigma_t eta`.

mod ancestral;
mod by_name;
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
mod reverse_diffusion;
pub mod run;
mod watched;

pub use ancestral::Ancestral;
pub use by_name::{NAMES, Options, by_name, needs_one_step, needs_scale};
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
pub use reverse_diffusion::ReverseDiffusion;
pub use run::{Ending, Sampling, sample, sample_watched};
pub use watched::Watched;

use crate::corruption::{LinearMap, Shape};
use crate::objective::ObjectiveError;
use crate::path::Path;

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

/// A time on the way back with its C and sigma. The last one of all is (0, I, 0), whatever the path says there.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// t.
    pub t: f64,
    /// C_t.
    pub map: LinearMap,
    /// sigma_t.
    pub sigma: f64,
}

impl Point {
    /// The path at t.
    pub fn on(path: &Path, t: f64) -> Result<Point> {
        let moment = path.at(t)?;
        Ok(Point { t, map: moment.map, sigma: moment.sigma })
    }

    /// The image itself: C = I, no noise (choice A8).
    pub fn clean() -> Point {
        Point { t: 0.0, map: LinearMap::Identity, sigma: 0.0 }
    }

    /// alpha, where C = alpha I.
    pub fn scale(&self) -> Option<f64> {
        scale_of(&self.map)
    }

    /// The same for a sampler that needs it.
    fn scale_for(&self, sampler: &'static str) -> Result<f64> {
        self.scale().ok_or(SamplerError::NotAScale { sampler })
    }
}

fn scale_of(map: &LinearMap) -> Option<f64> {
    match map {
        LinearMap::Identity => Some(1.0),
        LinearMap::Scale(alpha) => Some(*alpha),
        LinearMap::Compose(parts) => parts.iter().map(scale_of).product(),
        LinearMap::Sum(parts) => parts.iter().map(scale_of).sum(),
        _ => None,
    }
}

/// Everything one step reads besides x.
pub struct Stage<'a> {
    /// The path, for samplers that need its derivatives.
    pub path: &'a Path,
    /// Where the step starts.
    pub from: &'a Point,
    /// Where it ends.
    pub to: &'a Point,
    /// Standard normal noise: [`Sampler::draws`] times the size of the batch.
    pub eta: &'a [f64],
}

impl Stage<'_> {
    fn shape(&self) -> Shape {
        self.path.shape()
    }

    /// `x0_hat` at (x, t), checked.
    fn x0_hat(&self, denoiser: &mut dyn Denoiser, x: &[f64], t: f64) -> Result<Vec<f64>> {
        checked_x0_hat(denoiser, x, t)
    }

    /// `C x` for a batch.
    fn apply(&self, map: &LinearMap, x: &[f64]) -> Result<Vec<f64>> {
        Ok(map.apply_batch(self.shape(), x)?)
    }

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
    fn sigma(&self, sampler: &'static str) -> Result<f64> {
        if self.from.sigma > 0.0 { Ok(self.from.sigma) } else { Err(SamplerError::NoNoise { sampler, t: self.from.t }) }
    }

    /// `sigma^2 - sigma'^2`, which must not be negative.
    fn lost_variance(&self, sampler: &'static str) -> Result<f64> {
        let (from, to) = (self.from.sigma, self.to.sigma);
        if to > from {
            return Err(SamplerError::NoiseGrows { sampler, from, to });
        }
        Ok((from - to) * (from + to))
    }
}

/// What a multistep sampler remembers of the step before: `x0_hat` and where it was predicted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Past {
    last: Option<(Vec<f64>, Point)>,
}

/// What is done with one evaluation as five numbers:
/// `x' = drawn C' h + kept (x - C h) + fresh eta` with `h = base x0_hat + ahead (x0_hat - previous x0_hat)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Blend {
    /// How much of the prediction is drawn; 1 but for samplers that discretise an SDE.
    pub drawn: f64,
    /// How much of the noise in x is kept.
    pub kept: f64,
    /// How much fresh noise is added.
    pub fresh: f64,
    /// How much of the prediction itself is in h; 1 but for corrections, which see only how it changed.
    pub base: f64,
    /// How far the prediction is extrapolated.
    pub ahead: f64,
}

impl Blend {
    /// The prediction, corrupted as the next point is, and nothing else.
    pub const PREDICTED: Blend = Blend { drawn: 1.0, kept: 0.0, fresh: 0.0, base: 1.0, ahead: 0.0 };

    /// `x' = of_x x + of_x0 x0_hat + fresh eta`, for `C = alpha I`.
    fn linear(stage: &Stage, sampler: &'static str, [of_x, of_x0, fresh]: [f64; 3]) -> Result<Blend> {
        let (alpha, alpha_next) = (stage.from.scale_for(sampler)?, stage.to.scale_for(sampler)?);
        Ok(Blend { drawn: (of_x0 + of_x * alpha) / alpha_next, kept: of_x, fresh, ..Blend::PREDICTED })
    }

    /// The step, of a sampler that does not look back.
    fn step(&self, stage: &Stage, x: &[f64], denoiser: &mut dyn Denoiser) -> Result<Vec<f64>> {
        let x0_hat = stage.x0_hat(denoiser, x, stage.from.t)?;
        let (y, mut next) = (stage.apply(&stage.from.map, &x0_hat)?, stage.apply(&stage.to.map, &x0_hat)?);
        next.iter_mut().zip(x).zip(&y).for_each(|((next, x), y)| *next = self.drawn * *next + self.kept * (x - y));
        if self.fresh != 0.0 {
            next.iter_mut().zip(stage.noise(0, x.len())?).for_each(|(next, eta)| *next += self.fresh * eta);
        }
        Ok(next)
    }
}

/// A way back from (C, sigma) to (C', sigma').
pub trait Sampler {
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

    /// x' at `stage.to` from x at `stage.from`: a function of its arguments alone.
    fn step(&self, stage: &Stage, x: &[f64], denoiser: &mut dyn Denoiser, past: &mut Past) -> Result<Vec<f64>>;

    /// The step as numbers, where it has this form; `before` is the time of the step before. A GPU runs it as a graph.
    fn blend(&self, _stage: &Stage, _before: Option<f64>) -> Option<Result<Blend>> {
        None
    }

    /// For a sampler of two evaluations, what follows [`Sampler::blend`]: x0_hat is predicted again, at the x' of the
    /// blend and the time of `stage.to`, and changes x' by these numbers, with the C and C' of the step and no noise.
    fn correction(&self, _stage: &Stage) -> Option<Blend> {
        None
    }

    /// The last step of all, where the clean prediction is returned (choice A8).
    fn finish(&self, stage: &Stage, x: &[f64], denoiser: &mut dyn Denoiser) -> Result<Vec<f64>> {
        stage.x0_hat(denoiser, x, stage.from.t)
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

/// Every sampler that works on any linear path, with its usual options.
pub fn general() -> Vec<Box<dyn Sampler>> {
    vec![
        Box::new(Naive),
        Box::new(Momentum),
        Box::new(FlowMomentum),
        Box::new(Churn::deterministic()),
        Box::new(Churn::part(0.3)),
        Box::new(Churn::rate(5.0)),
        Box::new(Heun),
        Box::new(Multistep),
        Box::new(DormandPrince::default()),
        Box::new(PredictorCorrector::new(Box::new(Momentum))),
    ]
}

/// The further samplers for `C = alpha I`.
pub fn special() -> Vec<Box<dyn Sampler>> {
    vec![
        Box::new(ReverseDiffusion),
        Box::new(EulerMaruyama),
        Box::new(PredictorCorrector::new(Box::new(ReverseDiffusion))),
        Box::new(Ancestral),
        Box::new(Ddim { eta: 0.0 }),
    ]
}
