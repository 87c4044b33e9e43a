//! An error for a reader: what is wrong, and what to do about it.

use crate::checkpoint::CheckpointError;
use crate::corruption::CorruptionError;
use crate::curve::CurveError;
use crate::data::DataError;
use crate::experiment::{ExperimentError, OracleError, UnknownExperiment};
use crate::import::{ConversionError, TrainingFileError};
use crate::inception::InceptionError;
use crate::linalg::LinalgError;
use crate::metrics::{MetricError, StoreError};
use crate::model::{ModelError, ScoreSdeError};
use crate::network::ConfigError;
use crate::noise::NoiseError;
use crate::objective::{ObjectiveError, WienerError};
use crate::path::PathError;
use crate::prior::PriorError;
use crate::ranks::RankError;
use crate::recipe::{BuildError, RecipeError};
use crate::restore::RestoreError;
use crate::run::{Diverged, RunError, Stopped};
use crate::sampler::SamplerError;
use crate::schedule::ScheduleError;
use crate::spectrum::SpectrumError;
use crate::train::{Cooldown, PrepareError, ScoreError, TableError, TrainError, Unlike};
use crate::transport::TransportError;
use softdiff_engine::memory::NotEnoughMemory;
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
        DataError,
        Diverged,
        ExperimentError,
        HintedMessage,
        InceptionError,
        LinalgError,
        MetricError,
        ModelError,
        NoiseError,
        NotEnoughMemory,
        ObjectiveError,
        OracleError,
        PathError,
        PrepareError,
        PriorError,
        RankError,
        ReadError,
        RestoreError,
        RunError,
        SamplerError,
        ScheduleError,
        ScoreError,
        ScoreSdeError,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::UNetConfig;
    use std::path::Path;

    #[test]
    fn a_hint_is_found_through_the_errors_that_pass_it_on() {
        let error = ModelError::from(SamplerError::from(ObjectiveError::NotOneStep));
        let (problem, hint) = explain(&error);
        assert_eq!(problem, "'ihdm' needs a model trained with objective.kind \"one-step\"");
        assert_eq!(hint.as_deref(), Some("use 'momentum' here"));
        let error = UNetConfig { image_size: 30, ..UNetConfig::ncsnpp_cifar10() }.check().unwrap_err();
        let error = TrainError::from(PrepareError::from(BuildError::from(error)));
        assert_eq!(explain(&error).1.as_deref(), Some("use a multiple of 8 up to 8192 (data.size)"));
        let error = TrainError::from(ScoreError::NoNetwork);
        assert!(explain(&error).1.is_some_and(|hint| hint.contains("SOFTDIFF_INCEPTION")));
        let error = Cooldown { updates: 7 };
        let error = TrainError::From { place: "model".into(), source: error.into() };
        assert_eq!(
            explain(&error).1.as_deref(),
            Some("set train.cooldown = 0, or import it again with --weights-only")
        );
    }

    #[test]
    fn a_message_is_never_cut() {
        let error = std::io::Error::other("one; two");
        assert_eq!(explain(&error), ("one; two".into(), None));
    }

    #[test]
    fn every_error_that_knows_its_remedy_is_in_the_list() {
        let list = include_str!("hint.rs");
        let list = &list[list.find("one_of!(").unwrap()..list.find("#[cfg(test)]").unwrap()];
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let (mut folders, mut found) =
            (["engine", "diffusion", "data", "softdiff"].map(|name| crates.join(name).join("src")).to_vec(), 0);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    folders.push(entry);
                    continue;
                }
                let text = std::fs::read_to_string(&entry).unwrap_or_default();
                for name in text.lines().filter_map(|line| line.strip_prefix("impl Hint for ")?.split(' ').next()) {
                    let mut listed = list.lines().map(|line| line.trim().trim_end_matches(','));
                    assert!(listed.any(|kind| kind.rsplit("::").next() == Some(name)), "{name}");
                    found += 1;
                }
            }
        }
        assert!(found > 30, "{found}");
    }
}
