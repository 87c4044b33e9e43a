//! Training objectives: Soft Score Matching and what it is compared with (Soft Diffusion, section 3.1).
//!
//! With `x_t = C_t x_0 + sigma_t eta` and a network F, every objective is `1/2 w(t) |e|^2`, summed over the image (choice
//! A17) and averaged over the batch. They differ in the error e. Each exists twice: as a plain function on numbers
//! ([`Objective::loss`]) and as operations of the engine ([`Loss::emit`]). A custom loss implements [`Loss`].

mod balance;
mod emit;
mod head;
mod loss;
mod prediction;
mod weight;
mod wiener;

pub use balance::{SPECTRUM_IMAGES, expected_loss};
pub use emit::{EmittedBatch, Loss, MomentVars};
pub use head::{Head, OutputScale, Parametrisation};
pub use loss::{Example, denoising_score_matching};
pub use prediction::{Prediction, TimeVars};
pub use weight::Weight;
pub use wiener::{Wiener, WienerError, WienerVars};

use crate::corruption::CorruptionError;
use softdiff_engine::Hint;
use std::borrow::Cow;

/// What is compared with what.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Kind {
    /// Soft Score Matching: `e = C_t (x0_hat - x0)`, which is `C_t (phi - r_t)` (Eq. 9 and 11). With C = I it is
    /// denoising score matching.
    #[default]
    Soft,
    /// Soft Score Matching seen from where the sampler will go: `e = C_(t - delta) (x0_hat - x0)`, delta uniform in
    /// [0, farthest] (choice A20); farthest = 0 is the paper.
    LookAhead {
        /// The largest delta.
        farthest: f64,
    },
    /// Clean prediction, as Cold Diffusion: `e = x0_hat - x0 = phi - r_t`, the paper's baseline (section 3.1, "Comparison
    /// with objectives used in other works"). The soft loss is at most ||C_t||^2 times this one.
    Clean,
    /// One step of deblurring, as IHDM: `e = x0_hat - C_(t - step) x_0`; here the network's `x0_hat` stands for the
    /// slightly less corrupted image.
    OneStep {
        /// The step in time.
        step: f64,
    },
    /// Noise prediction, as DDPM: `e = F - eta`. With C = alpha I it is the soft loss with w = 1/sigma^2 of
    /// `x0_hat = (x_t - sigma F) / alpha`.
    Noise,
}

/// An objective: what is compared, how errors at different times weigh, and what the network's output means.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Objective {
    /// What is compared.
    #[serde(default)]
    pub kind: Kind,
    /// w(t).
    #[serde(default)]
    pub weight: Weight,
    /// From the network's output to `x0_hat`.
    #[serde(default)]
    pub head: Head,
    /// lambda of the mixture `(1 - lambda) |C (x0_hat - x0)|^2 + lambda |x0_hat - x0|^2` (choice A20), from 0, the soft or
    /// look-ahead loss itself, to 1, that of [`Kind::Clean`].
    #[serde(default)]
    pub mixture: f64,
    /// What takes the place of the head.
    #[serde(default)]
    pub precondition: Precondition,
}

/// How much of `x0_hat` is known without a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precondition {
    /// What [`Head`] says.
    #[default]
    None,
    /// The best linear estimate per frequency, [`Wiener`]. It depends on the images.
    Wiener,
}

/// What is wrong with an objective or its numbers.
#[derive(Debug, thiserror::Error)]
pub enum ObjectiveError {
    /// Values that do not fit together.
    #[error("{what} has {found} values, expected {expected} as in x0")]
    Size {
        /// What has the wrong size.
        what: &'static str,
        /// Values found.
        found: usize,
        /// Values that fit.
        expected: usize,
    },
    /// A division by zero noise.
    #[error("the loss divides by the noise, which is {0}")]
    NoNoise(f64),
    /// A noise prediction where C_t cannot be inverted.
    #[error("no clean image follows from the noise at time {0}, where C_t is not a positive number times the identity")]
    NoInverse(f64),
    /// A one-step prediction taken for a clean one.
    #[error("this model predicts the image one step less corrupted (objective.kind \"one-step\"), not the clean one")]
    OneStep,
    /// A clean prediction taken for a one-step one.
    #[error("'ihdm' needs a model trained with objective.kind \"one-step\"")]
    NotOneStep,
    /// A step of another size than the network's.
    #[error("this model goes back in steps of {step} in time and cannot step from {from} to {to}")]
    OtherStep {
        /// The network's step.
        step: f64,
        /// Where the step begins.
        from: f64,
        /// Where it was to end.
        to: f64,
    },
    /// An objective that needs C at a second time.
    #[error("this objective compares at an earlier time as well")]
    NoEarlierMap,
    /// An option that makes no sense.
    #[error("{option} is {value}")]
    Option {
        /// Which.
        option: &'static str,
        /// What was given.
        value: f64,
        /// What to give.
        remedy: &'static str,
    },
    /// A bad map.
    #[error(transparent)]
    Corruption(#[from] CorruptionError),
}

impl Hint for ObjectiveError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            ObjectiveError::Size { .. } => return None,
            ObjectiveError::NoNoise(_) => "use weight 1 and no output scale by 1/sigma, or add noise".into(),
            ObjectiveError::NoInverse(_) => "train with objective.kind \"soft\" on this path".into(),
            ObjectiveError::OneStep => "only softdiff sample with the sampler 'ihdm' can use it".into(),
            ObjectiveError::NotOneStep => "use 'momentum' here".into(),
            ObjectiveError::OtherStep { step, .. } => {
                format!("begin at time 1 with {} steps and no warp", (1.0 / step).round()).into()
            }
            ObjectiveError::NoEarlierMap => "give the map of that time".into(),
            ObjectiveError::Option { remedy, .. } => (*remedy).into(),
            ObjectiveError::Corruption(error) => return error.hint(),
        })
    }
}

impl Objective {
    /// The paper's: Soft Score Matching of the residual with w = 1/sigma^2 (and phi = sigma F, choice A15).
    pub const PAPER: Objective = Objective {
        kind: Kind::Soft,
        weight: Weight::InverseVariance,
        head: Head::PAPER,
        precondition: Precondition::None,
        mixture: 0.0,
    };

    /// Refuses options that make no sense.
    pub fn check(&self) -> Result<(), ObjectiveError> {
        let range = |option, value: f64| match value {
            v if (0.0..=1.0).contains(&v) => Ok(()),
            value => Err(ObjectiveError::Option { option, value, remedy: "give a time from 0 to 1, such as 0.05" }),
        };
        match self.kind {
            Kind::LookAhead { farthest } => range("the farthest look ahead", farthest)?,
            Kind::OneStep { step } => range("the step of the one-step target", step)?,
            _ => {}
        }
        match (self.mixture, self.kind) {
            (0.0, _) | (_, Kind::Soft | Kind::LookAhead { .. }) if (0.0..=1.0).contains(&self.mixture) => {}
            (value, _) => {
                let remedy = "give a number from 0 to 1, and only the soft and the look-ahead loss more than 0";
                return Err(ObjectiveError::Option { option: "the mixture", value, remedy });
            }
        }
        self.weight.check()
    }
}

/// How far before t a second time lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Earlier {
    /// Uniform in [0, this].
    Drawn(f64),
    /// Always this.
    Fixed(f64),
}
