//! What a network predicts, and the clean image that follows from it: the one conversion that training, samplers, previews
//! and scores share.
//!
//! Every conversion is linear in the image and in the output, `x0_hat = W_t x_t + B_t F`.

use super::{Head, Kind, Objective, ObjectiveError, Wiener};
use crate::path::Moment;
use softdiff_engine::{Error, Graph, Result as EngineResult, Var};
use std::sync::Arc;

/// What a network was trained to predict.
#[derive(Debug, Clone, PartialEq)]
pub enum Prediction {
    /// The clean image, through the head: `x0_hat = x_t + phi` or `phi`.
    Clean(Head),
    /// What the best linear estimate leaves open of the clean image.
    Wiener(Arc<Wiener>),
    /// The noise, `F = eta_hat`: `x0_hat = C_t^-1 (x_t - sigma_t F)`, which for `C = alpha I` is `(x_t - sigma_t F) / alpha_t`.
    Noise,
    /// The image one step less corrupted, `C_(t - step) x_0`, through the head. No clean image follows from it: only
    /// [`crate::sampler::Ihdm`] can sample with it.
    OneStep {
        /// The head.
        head: Head,
        /// The step in time.
        step: f64,
    },
}

/// A batch of times in a graph, as far as a prediction reads them.
#[derive(Debug, Clone, Copy)]
pub struct TimeVars {
    /// t, `[n]`; none where the network is conditioned on something else.
    pub t: Option<Var>,
    /// sigma_t, `[n or 1, 1, 1, 1]`.
    pub sigma: Var,
    /// alpha_t of `C_t = alpha_t I`, of the same shape; a noise prediction needs it.
    pub alpha: Option<Var>,
}

impl Objective {
    /// What a network trained by this objective predicts, without preconditioning.
    pub fn prediction(&self) -> Prediction {
        match self.kind {
            Kind::Soft | Kind::LookAhead { .. } | Kind::Clean => Prediction::Clean(self.head),
            Kind::OneStep { step } => Prediction::OneStep { head: self.head, step },
            Kind::Noise => Prediction::Noise,
        }
    }
}

impl Prediction {
    /// The paper's: the residual, with phi = sigma F.
    pub const PAPER: Prediction = Prediction::Clean(Head::PAPER);

    /// `x0_hat` from the network's output at x_t, for any number of images at one time.
    pub fn x0_hat(&self, output: &[f64], xt: &[f64], at: &Moment) -> Result<Vec<f64>, ObjectiveError> {
        match self {
            _ if output.len() != xt.len() => {
                let (found, expected) = (output.len(), xt.len());
                Err(ObjectiveError::Size { what: "the network's output", found, expected })
            }
            Prediction::Clean(head) => head.x0_hat(output, xt, at.sigma),
            Prediction::Wiener(wiener) => Ok(wiener.x0_hat(output, xt, at.t)?),
            Prediction::Noise => {
                let alpha = alpha(at)?;
                Ok(output.iter().zip(xt).map(|(f, x)| (x - at.sigma * f) / alpha).collect())
            }
            Prediction::OneStep { .. } => Err(ObjectiveError::OneStep),
        }
    }

    /// `C_(t_next) x_0` from the output of a one-step network; `t_next` must be a step before t.
    pub fn one_step(&self, output: &[f64], xt: &[f64], at: &Moment, t_next: f64) -> Result<Vec<f64>, ObjectiveError> {
        /// Times are sums of steps, with their rounding errors.
        const SLACK: f64 = 1e-6;
        match *self {
            Prediction::OneStep { step, .. } if ((at.t - step).max(0.0) - t_next).abs() > SLACK => {
                Err(ObjectiveError::OtherStep { step, from: at.t, to: t_next })
            }
            Prediction::OneStep { head, .. } => head.x0_hat(output, xt, at.sigma),
            _ => Err(ObjectiveError::NotOneStep),
        }
    }

    /// The numbers that [`TimeVars::alpha`] takes at a point; none where it is not read.
    pub fn alpha(&self, at: &Moment) -> Result<Option<f64>, ObjectiveError> {
        match self {
            Prediction::Noise => Ok(Some(alpha(at)?)),
            _ => Ok(None),
        }
    }

    /// Refuses what has no clean image.
    pub fn check_clean(&self) -> Result<(), ObjectiveError> {
        match self {
            Prediction::OneStep { .. } => Err(ObjectiveError::OneStep),
            _ => Ok(()),
        }
    }

    /// `x0_hat` in the engine; for a one-step network the image one step less corrupted.
    pub fn emit(&self, g: &mut Graph, output: Var, xt: Var, at: TimeVars) -> EngineResult<Var> {
        match self {
            Prediction::Clean(head) | Prediction::OneStep { head, .. } => head.emit(g, output, xt, at.sigma),
            Prediction::Wiener(wiener) => {
                let vars = wiener.lookup(g, at.t.ok_or_else(|| missing("t", "a preconditioned prediction"))?)?;
                wiener.emit(g, output, xt, &vars)
            }
            Prediction::Noise => {
                let alpha = at.alpha.ok_or_else(|| missing("alpha", "a noise prediction"))?;
                let noise = g.mul(output, at.sigma)?;
                let signal = g.sub(xt, noise)?;
                let inverse = g.map(softdiff_engine::op::Function::Reciprocal, alpha)?;
                g.mul(signal, inverse)
            }
        }
    }

    /// `x0_hat - x0` in the engine, in one combination where there is one.
    pub(super) fn emit_error(&self, g: &mut Graph, output: Var, xt: Var, x0: Var, at: TimeVars) -> EngineResult<Var> {
        match self {
            Prediction::Clean(head) => head.emit_error(g, output, xt, x0, at.sigma),
            _ => {
                let x0_hat = self.emit(g, output, xt, at)?;
                g.sub(x0_hat, x0)
            }
        }
    }
}

fn missing(name: &str, what: &str) -> Error {
    Error::Unknown { kind: "moment", name: name.into(), hint: Some(format!("{what} needs it")) }
}

fn alpha(at: &Moment) -> Result<f64, ObjectiveError> {
    match at.scale() {
        Some(alpha) if alpha > 0.0 => Ok(alpha),
        _ => Err(ObjectiveError::NoInverse(at.t)),
    }
}
