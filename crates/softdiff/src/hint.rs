//! An error for a reader: what is wrong, and what to do about it.

use crate::checkpoint::CheckpointError;
use crate::experiment::{ExperimentError, OracleError, UnknownExperiment};
use crate::import::ConversionError;
use crate::inception::InceptionError;
use crate::metrics::{MetricError, StoreError};
use crate::model::ModelError;
use crate::recipe::RecipeError;
use crate::restore::RestoreError;
use crate::run::{Diverged, RunError, Stopped};
use crate::train::TrainError;
use std::error::Error;

pub use softdiff_engine::Hint;

/// An error and its causes.
pub fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// What is wrong, and what to do about it: the hint of the error or of one of its causes, else the end of a message such as
/// "what is wrong; what to do".
pub fn explain(error: &(dyn Error + 'static)) -> (String, Option<String>) {
    let message = error.to_string();
    // The message about a recipe brings its places and hints.
    if causes(error).any(|cause| cause.is::<RecipeError>()) {
        return (message, None);
    }
    let hint = causes(error).filter_map(as_hint).find_map(|hint| hint.hint().map(|hint| hint.into_owned()));
    match (hint, message.rsplit_once("; ")) {
        (None, Some((problem, remedy))) => (problem.into(), Some(remedy.into())),
        (hint, _) => (message, hint),
    }
}

/// The error as one that knows its remedy. Every type that implements [`Hint`] is in this list.
fn as_hint<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a dyn Hint> {
    macro_rules! one_of {
        ($($kind:ty),*) => { None$(.or_else(|| error.downcast_ref::<$kind>().map(|error| error as &dyn Hint)))* };
    }
    one_of!(
        CheckpointError,
        ConversionError,
        Diverged,
        ExperimentError,
        InceptionError,
        MetricError,
        ModelError,
        OracleError,
        RestoreError,
        RunError,
        Stopped,
        StoreError,
        TrainError,
        UnknownExperiment,
        softdiff_engine::Error
    )
}
