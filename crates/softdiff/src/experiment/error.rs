//! Why an experiment could not be run.

use super::OracleError;
use crate::corruption::CorruptionError;
use crate::data::DataError;
use crate::metrics::MetricError;
use crate::model::ModelError;
use crate::path::PathError;
use crate::recipe::{BuildError, RecipeError};
use crate::run::Stopped;
use crate::sampler::SamplerError;
use crate::schedule::ScheduleError;
use crate::spectrum::SpectrumError;
use std::borrow::Cow;
use std::error::Error;
use std::path::PathBuf;

/// Why an experiment could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The fields are named as the messages use them.
pub enum ExperimentError {
    /// Models on several data sets.
    #[error("{name} compares models on one data set, and several were given")]
    OneDataSet { name: &'static str },
    /// Two folders of one name.
    #[error("two data sets are called {name}")]
    SameName { name: String },
    /// A budget of no time.
    #[error("--minutes is {minutes}")]
    Minutes { minutes: f64 },
    /// Models that were trained for longer than the budget allows.
    #[error("{} holds models of {trained} steps, more than the {steps} of this budget", folder.display())]
    TrainedLonger { folder: PathBuf, trained: u64, steps: u64 },
    /// The experiment's folder.
    #[error("cannot make {}: {error}", folder.display())]
    Folder { folder: PathBuf, error: std::io::Error },
    /// Results that cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable { path: PathBuf, error: std::io::Error },
    /// Results of something else.
    #[error("{} is not what this program writes: {error}", path.display())]
    NotResults { path: PathBuf, error: serde_json::Error },
    /// Results that cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Unwritable { path: PathBuf, error: std::io::Error },
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    #[error(transparent)]
    Metric(#[from] MetricError),
    #[error(transparent)]
    Oracle(#[from] OracleError),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    #[error(transparent)]
    Spectrum(#[from] SpectrumError),
    #[error(transparent)]
    Corruption(#[from] CorruptionError),
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl ExperimentError {
    /// What to do about it.
    pub fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            ExperimentError::OneDataSet { .. } => "give --data once; only schedules takes several".into(),
            ExperimentError::SameName { .. } => "rename one, or give each once".into(),
            ExperimentError::Minutes { .. } => "give minutes above zero, such as 10".into(),
            ExperimentError::TrainedLonger { .. } => "give a larger budget, or another --out".into(),
            ExperimentError::Folder { .. } => "give another --out".into(),
            ExperimentError::Unreadable { .. } => "check its permissions".into(),
            ExperimentError::NotResults { .. } => {
                "remove it: the models are kept, and what was measured is measured again".into()
            }
            ExperimentError::Unwritable { .. } => "check the folder and the free space".into(),
            _ => return None,
        })
    }

    /// The error that this one passes on.
    pub(crate) fn inner(&self) -> Option<&(dyn Error + 'static)> {
        Some(match self {
            ExperimentError::Recipe(inner) => inner,
            ExperimentError::Data(inner) => inner,
            ExperimentError::Model(inner) => inner,
            ExperimentError::Sampler(inner) => inner,
            ExperimentError::Metric(inner) => inner,
            ExperimentError::Oracle(inner) => inner,
            ExperimentError::Build(inner) => inner,
            ExperimentError::Schedule(inner) => inner,
            ExperimentError::Spectrum(inner) => inner,
            ExperimentError::Corruption(inner) => inner,
            ExperimentError::Path(inner) => inner,
            ExperimentError::Stopped(inner) => inner,
            _ => return None,
        })
    }
}
