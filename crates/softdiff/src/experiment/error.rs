//! Why an experiment could not be run.

use super::OracleError;
use crate::corruption::CorruptionError;
use crate::data::DataError;
use crate::metrics::MetricError;
use crate::model::ModelError;
use crate::path::PathError;
use crate::recipe::{BuildError, RecipeError};
use crate::sampler::SamplerError;
use crate::schedule::ScheduleError;
use crate::spectrum::SpectrumError;
use crate::train::TrainError;
use softdiff_engine::Hint;
use std::borrow::Cow;
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
    #[error("{0}")]
    Train(#[from] TrainError),
    #[error("{0}")]
    Recipe(#[from] RecipeError),
    #[error("{0}")]
    Data(#[from] DataError),
    #[error("{0}")]
    Model(#[from] ModelError),
    #[error("{0}")]
    Sampler(#[from] SamplerError),
    #[error("{0}")]
    Metric(#[from] MetricError),
    #[error("{0}")]
    Oracle(#[from] OracleError),
    #[error("{0}")]
    Build(#[from] BuildError),
    #[error("{0}")]
    Schedule(#[from] ScheduleError),
    #[error("{0}")]
    Spectrum(#[from] SpectrumError),
    #[error("{0}")]
    Corruption(#[from] CorruptionError),
    #[error("{0}")]
    Path(#[from] PathError),
}

impl Hint for ExperimentError {
    fn hint(&self) -> Option<Cow<'_, str>> {
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
            ExperimentError::Unwritable { .. } => {
                "check the folder, the free space and the limit on file sizes (ulimit -f)".into()
            }
            _ => return None,
        })
    }
}
