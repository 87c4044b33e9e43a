//! Why training ended early.

use super::{PrepareError, ScoreError, TableError};
use crate::checkpoint::CheckpointError;
use crate::hint::explain;
use crate::model::ModelError;
use crate::recipe::RecipeError;
use crate::run::{Diverged, RunError, Stopped};
use crate::sampler::SamplerError;
use softdiff_engine::Hint;
use std::borrow::Cow;
use std::error::Error;
use std::path::{Path, PathBuf};

/// Why training ended early.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A batch that cannot be cut into equal parts.
    #[error("a batch of {batch} cannot be cut into {parts} equal parts")]
    Parts {
        /// Images of a batch.
        batch: usize,
        /// Parts asked for.
        parts: usize,
    },
    /// Parts of a batch that cannot be given to the ranks.
    #[error("the {parts} parts of a batch cannot be divided among {ranks} ranks")]
    Ranks {
        /// Parts of a batch.
        parts: usize,
        /// Ranks.
        ranks: usize,
    },
    /// Weights to begin with that cannot be had.
    #[error("train.from: the weights of {} cannot be used", place.display())]
    From {
        /// The run or model.
        place: PathBuf,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Images the network is not for.
    #[error("the images are {images}, the network is for {network}")]
    Shape {
        /// What the data set has.
        images: String,
        /// What the network takes.
        network: String,
    },
    /// A bad recipe.
    #[error("{0}")]
    Recipe(#[from] RecipeError),
    /// Images, schedule or prior.
    #[error("{0}")]
    Prepare(Box<PrepareError>),
    /// The metric that chooses the best checkpoint.
    #[error("{0}")]
    Score(Box<ScoreError>),
    /// A path that has no table.
    #[error("{0}")]
    Table(#[from] TableError),
    /// The device or the graph.
    #[error("{0}")]
    Engine(#[from] softdiff_engine::Error),
    /// The newest checkpoint of a run is damaged.
    #[error("{problem}")]
    NewestDamaged {
        /// The run.
        run: PathBuf,
        /// What is wrong with it.
        problem: Box<CheckpointError>,
        /// The newest that is whole.
        whole: u64,
    },
    /// The checkpoint to go on from.
    #[error("{0}")]
    Choice(Box<ModelError>),
    /// A checkpoint.
    #[error("{0}")]
    Checkpoint(#[from] CheckpointError),
    /// The run's folder.
    #[error("{0}")]
    Run(#[from] RunError),
    /// A preview.
    #[error("{0}")]
    Sampler(#[from] SamplerError),
    /// An evaluation.
    #[error("an evaluation failed")]
    Evaluation(#[source] Box<dyn Error + Send + Sync>),
    /// Only non-finite numbers.
    #[error("{0}")]
    Diverged(#[from] Diverged),
    /// A signal.
    #[error("{0}")]
    Stopped(#[from] Stopped),
}

impl From<PrepareError> for TrainError {
    fn from(error: PrepareError) -> Self {
        TrainError::Prepare(Box::new(error))
    }
}

impl From<ScoreError> for TrainError {
    fn from(error: ScoreError) -> Self {
        TrainError::Score(Box::new(error))
    }
}

impl Hint for TrainError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            TrainError::Parts { .. } => "choose train.accumulate, or the number of ranks, to divide train.batch".into(),
            TrainError::Ranks { ranks, .. } => {
                format!("choose train.accumulate as a multiple of {ranks}, or another number of ranks").into()
            }
            TrainError::Shape { .. } => "set data.size and data.channels, or the network".into(),
            TrainError::Engine(softdiff_engine::Error::Memory { .. }) => {
                "give --set train.recompute=true, or --set train.accumulate=2 or more; nvidia-smi shows who uses the GPU"
                    .into()
            }
            TrainError::NewestDamaged { run, whole, .. } => format!(
                "restore it from a copy, or go on from the newest that is whole: softdiff train --out {} --checkpoint {whole}",
                quoted(run)
            )
            .into(),
            // Boxed, they are no causes to look through.
            TrainError::Prepare(error) => return explain(error.as_ref()).1.map(Cow::from),
            TrainError::Score(error) => return explain(error.as_ref()).1.map(Cow::from),
            TrainError::Choice(error) => return explain(error.as_ref()).1.map(Cow::from),
            _ => return None,
        })
    }
}

/// A path as a word of a command, where it is a usual one.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    if text.contains(' ') { format!("'{text}'") } else { text }
}
