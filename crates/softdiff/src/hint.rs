//! An error for a reader: what is wrong, and what to do about it.

use crate::checkpoint::CheckpointError;
use crate::experiment::ExperimentError;
use crate::model::ModelError;
use crate::recipe::RecipeError;
use crate::restore::RestoreError;
use crate::run::{Diverged, RunError, Stopped};
use crate::train::{PrepareError, TrainError};
use std::borrow::Cow;
use std::error::Error;

/// An error and its causes, those that a transparent error hides among them.
pub fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(inner(error)), |&error| error.source().map(inner))
}

/// What is wrong, and what to do about it: the hint of the error or of one of its causes, else the end of a message such as
/// "what is wrong; what to do".
pub fn explain(error: &(dyn Error + 'static)) -> (String, Option<String>) {
    let message = error.to_string();
    // The message about a recipe brings its places and hints.
    if inner(error).is::<RecipeError>() {
        return (message, None);
    }
    match (causes(error).find_map(known_hint), message.rsplit_once("; ")) {
        (None, Some((problem, remedy))) => (problem.into(), Some(remedy.into())),
        (hint, _) => (message, hint),
    }
}

/// The error inside one that only passes it on, and so hides it from its list of sources.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    if let Some(inner) = error.downcast_ref().and_then(ExperimentError::inner) {
        return self::inner(inner);
    }
    match error.downcast_ref() {
        Some(known) if TrainError::hint(known).is_some() => return known,
        Some(TrainError::Stopped(inner)) => return inner,
        Some(TrainError::Diverged(inner)) => return inner,
        Some(TrainError::Checkpoint(inner)) => return inner,
        Some(TrainError::Run(inner)) => return inner,
        Some(TrainError::Engine(inner)) => return inner,
        _ => {}
    }
    match error.downcast_ref() {
        Some(ModelError::Recipe(inner)) => return inner,
        Some(ModelError::Checkpoint(inner)) => return inner,
        Some(ModelError::Engine(inner)) => return inner,
        _ => {}
    }
    match error.downcast_ref() {
        Some(PrepareError::Run(inner)) => inner,
        _ => error,
    }
}

fn known_hint(error: &(dyn Error + 'static)) -> Option<String> {
    let checkpoint = error.downcast_ref().and_then(CheckpointError::hint);
    let run = || error.downcast_ref().and_then(RunError::hint);
    let diverged = || error.downcast_ref().map(Diverged::hint);
    let stopped = || error.downcast_ref().map(Stopped::hint);
    let train = || error.downcast_ref().and_then(TrainError::hint);
    let restore = || error.downcast_ref().and_then(RestoreError::hint).map(Cow::into_owned);
    let experiment = || error.downcast_ref().and_then(ExperimentError::hint).map(Cow::into_owned);
    let device = || match error.downcast_ref() {
        Some(softdiff_engine::Error::Device { hint, .. }) => Some(hint.clone()),
        Some(softdiff_engine::Error::Memory { .. }) => {
            Some("use a smaller batch, or free the GPU (nvidia-smi shows who uses it)".into())
        }
        _ => None,
    };
    checkpoint
        .or_else(run)
        .or_else(diverged)
        .or_else(stopped)
        .or_else(train)
        .or_else(restore)
        .or_else(experiment)
        .or_else(device)
}
