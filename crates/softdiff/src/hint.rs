//! An error for a reader: what is wrong, and what to do about it.

use crate::checkpoint::CheckpointError;
use crate::corruption::CorruptionError;
use crate::curve::CurveError;
use crate::experiment::{ExperimentError, OracleError, UnknownExperiment};
use crate::import::{ConversionError, TrainingFileError};
use crate::inception::InceptionError;
use crate::linalg::LinalgError;
use crate::metrics::{MetricError, StoreError};
use crate::model::ModelError;
use crate::network::ConfigError;
use crate::noise::NoiseError;
use crate::objective::{ObjectiveError, WienerError};
use crate::path::PathError;
use crate::prior::PriorError;
use crate::recipe::{BuildError, RecipeError};
use crate::restore::RestoreError;
use crate::run::{Diverged, RunError, Stopped};
use crate::sampler::SamplerError;
use crate::schedule::ScheduleError;
use crate::spectrum::SpectrumError;
use crate::train::{Cooldown, PrepareError, ScoreError, TableError, TrainError, Unlike};
use crate::transport::TransportError;
use softdiff_engine::{HintedMessage, ReadError};
use std::error::Error;

pub use softdiff_engine::Hint;

/// An error and its causes.
pub fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// What is wrong, and what to do about it: the hint of the error or of one of its causes.
pub fn explain(error: &(dyn Error + 'static)) -> (String, Option<String>) {
    // The message about a recipe brings its places and hints.
    let hint = match causes(error).any(|cause| cause.is::<RecipeError>()) {
        true => None,
        false => causes(error).filter_map(as_hint).find_map(|hint| hint.hint().map(|hint| hint.into_owned())),
    };
    (error.to_string(), hint)
}

/// The error as one that knows its remedy. Every type that implements [`Hint`] in the library is in this list.
fn as_hint<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a dyn Hint> {
    macro_rules! one_of {
        ($($kind:ty),*) => { None$(.or_else(|| error.downcast_ref::<$kind>().map(|error| error as &dyn Hint)))* };
    }
    one_of!(
        BuildError,
        CheckpointError,
        ConfigError,
        ConversionError,
        Cooldown,
        CorruptionError,
        CurveError,
        Diverged,
        ExperimentError,
        HintedMessage,
        InceptionError,
        LinalgError,
        MetricError,
        ModelError,
        NoiseError,
        ObjectiveError,
        OracleError,
        PathError,
        PrepareError,
        PriorError,
        ReadError,
        RestoreError,
        RunError,
        SamplerError,
        ScheduleError,
        ScoreError,
        SpectrumError,
        Stopped,
        StoreError,
        TableError,
        TrainError,
        TrainingFileError,
        TransportError,
        UnknownExperiment,
        Unlike,
        WienerError,
        softdiff_engine::Error
    )
}
