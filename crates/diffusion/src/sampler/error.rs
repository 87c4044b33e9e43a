//! What can go wrong while sampling.

use super::run::MOST_STEPS;
use crate::corruption::CorruptionError;
use crate::linalg::LinalgError;
use crate::objective::ObjectiveError;
use crate::path::PathError;
use softdiff_engine::Hint;
use std::borrow::Cow;

/// What can go wrong while sampling.
#[derive(Debug, thiserror::Error)]
pub enum SamplerError {
    /// No steps.
    #[error("sampling needs at least one step")]
    NoSteps,
    /// More steps than anyone takes, whose times would not fit into memory.
    #[error("sampling in {0} steps")]
    TooManySteps(usize),
    /// Times that do not run from corrupted to clean.
    #[error("step {index} is to go from time {from} to {to}")]
    Times {
        /// Which step.
        index: usize,
        /// Its start.
        from: f64,
        /// Its end.
        to: f64,
    },
    /// Values that do not fit together.
    #[error("{what} has {found} values, expected {expected}")]
    Size {
        /// What has the wrong size.
        what: &'static str,
        /// Values found.
        found: usize,
        /// Values that fit.
        expected: usize,
    },
    /// NaN or infinity.
    #[error("{what} is not finite at time {t} (value {index})")]
    NotFinite {
        /// What is not finite.
        what: &'static str,
        /// When.
        t: f64,
        /// The first bad value.
        index: usize,
    },
    /// A division by zero noise.
    #[error("'{sampler}' divides by the noise, which is 0 at time {t}")]
    NoNoise {
        /// Which sampler.
        sampler: &'static str,
        /// When.
        t: f64,
    },
    /// A step asked for as updates that is not affine.
    #[error("the steps of '{sampler}' are not affine updates")]
    NotAffine {
        /// Which sampler.
        sampler: &'static str,
    },
    /// Noise that grows towards the image.
    #[error("noise grows from {from} to {to} on the way back")]
    NoiseGrows {
        /// Which sampler.
        sampler: &'static str,
        /// sigma at the start of the step.
        from: f64,
        /// sigma at its end.
        to: f64,
    },
    /// A sampler for `C = alpha I` on another corruption.
    #[error("'{sampler}' works only where C_t is a number times the identity (VE, VP, sub-VP)")]
    NotAScale {
        /// Which sampler.
        sampler: &'static str,
    },
    /// An option that makes no sense.
    #[error("{option} of '{sampler}' is {value}")]
    Option {
        /// Which sampler.
        sampler: &'static str,
        /// Which option.
        option: &'static str,
        /// What was given.
        value: f64,
        /// What to give.
        remedy: &'static str,
    },
    /// An adaptive solver that gave up.
    #[error("the tolerance {tolerance} was not reached by time {t} within {evaluations} evaluations")]
    Unreachable {
        /// What was asked for.
        tolerance: f64,
        /// How far it came.
        t: f64,
        /// What it took.
        evaluations: usize,
    },
    /// A sampler that does not exist.
    #[error("there is no sampler '{name}'")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        hint: String,
    },
    /// Guidance without a model to guide by.
    #[error("sample.guidance is {0}, and the model has no guide")]
    NoGuide(f64),
    /// A denoiser that failed for its own reasons.
    #[error("the denoiser failed: {0}")]
    Denoiser(String),
    /// Who watches the sampling asked to stop it.
    #[error("sampling was stopped")]
    Stopped,
    /// A prediction that the sampler cannot use.
    #[error(transparent)]
    Prediction(#[from] ObjectiveError),
    /// A bad path or time.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A bad map.
    #[error(transparent)]
    Corruption(#[from] CorruptionError),
    /// A covariance that cannot be used.
    #[error(transparent)]
    Matrix(#[from] LinalgError),
    /// A network that could not be run.
    #[error(transparent)]
    Engine(#[from] softdiff_engine::Error),
}

impl Hint for SamplerError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            SamplerError::NoSteps => "give a number such as 280".into(),
            SamplerError::TooManySteps(_) => format!("give 1 to {MOST_STEPS}").into(),
            SamplerError::Times { .. } => "times must fall, from 1 to 0".into(),
            SamplerError::NotFinite { .. } => "the network may have diverged: try an earlier checkpoint".into(),
            SamplerError::NoNoise { .. } => "start from a time with noise, or add some to the path".into(),
            SamplerError::NotAffine { .. } => "sample with it through Sampler::step".into(),
            SamplerError::NoiseGrows { sampler, .. } => {
                format!("'{sampler}' needs a path whose noise never falls with t").into()
            }
            SamplerError::NotAScale { .. } => "use 'momentum' here".into(),
            SamplerError::Option { remedy, .. } => (*remedy).into(),
            SamplerError::Unreachable { .. } => {
                "give a larger tolerance, or a path without corners (monotone cubic)".into()
            }
            SamplerError::Unknown { hint, .. } => hint.into(),
            SamplerError::NoGuide(_) => {
                "give a weaker model of the same path (--guide MODEL), or sample.guidance=1".into()
            }
            SamplerError::Size { .. } | SamplerError::Denoiser(_) | SamplerError::Stopped => return None,
            SamplerError::Prediction(error) => return error.hint(),
            SamplerError::Path(error) => return error.hint(),
            SamplerError::Corruption(error) => return error.hint(),
            SamplerError::Matrix(error) => return error.hint(),
            SamplerError::Engine(error) => return error.hint(),
        })
    }
}

/// The result of a sampler.
pub type Result<T, E = SamplerError> = std::result::Result<T, E>;
