//! The state of a training run, all of it: weights, optimiser, and how far it got.

use crate::run::{Guard, Meter};
use serde::{Deserialize, Serialize};
use softdiff_engine::Params;
use softdiff_engine::optim::{Adam, AdamConfig};

/// How far a run got; the content of `state.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingProgress {
    /// Training steps done, those included whose update was skipped.
    pub step: u64,
    /// Images the network has seen.
    pub images_seen: u64,
    /// Seconds of training in all sessions of the run.
    pub elapsed_seconds: f64,
    /// What the guard remembers.
    pub guard: Guard,
    /// The averages that the next step event will report.
    pub meter: Meter,
}

/// All that a training run has to remember.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingState {
    /// The weights.
    pub params: Params<f32>,
    /// Moments and moving averages.
    pub adam: Adam<f32>,
    /// How far it got.
    pub progress: TrainingProgress,
}

impl TrainingState {
    /// The state before the first step.
    pub fn new(params: Params<f32>, config: AdamConfig) -> Self {
        let adam = Adam::new(config, &params);
        TrainingState { params, adam, progress: TrainingProgress::default() }
    }

    /// The weights to sample with: the first moving average, else the raw ones.
    pub fn averaged(&self) -> &Params<f32> {
        self.adam.ema.first().unwrap_or(&self.params)
    }
}
