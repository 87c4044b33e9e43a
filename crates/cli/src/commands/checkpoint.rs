//! The flag that chooses a checkpoint of a run, shared by several verbs.

use clap::Args;
use softdiff::model::{CheckpointChoice, Model, ModelError};
use softdiff::recipe::Weights;
use std::path::Path;

/// Which checkpoint.
#[derive(Args)]
pub struct CheckpointFlag {
    /// Which checkpoint of a run: best (by the recipe's checkpoint.metric), last, or its step [default: best if one was scored,
    /// else last].
    #[arg(long, value_name = "best|last|STEP")]
    checkpoint: Option<CheckpointChoice>,
}

impl CheckpointFlag {
    /// Opens a model at that checkpoint.
    pub fn open(&self, place: &Path, weights: Option<Weights>) -> Result<Model, ModelError> {
        Model::open_at(place, weights, self.checkpoint.unwrap_or_default())
    }
}
