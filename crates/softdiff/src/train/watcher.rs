//! Who watches a training run.

use crate::run::{Event, StopRequest};
use softdiff_engine::Params;
use std::error::Error;

/// A metric of the weights at a checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckpointScore {
    /// Its name.
    pub metric: String,
    /// Its value.
    pub value: f64,
    /// On how many images.
    pub images: u64,
}

/// Who watches a training run. Everything is optional.
pub trait Watcher {
    /// Something worth a line.
    fn note(&mut self, _message: &str) {}

    /// So many of so many steps are done; `loss` is that of the last one.
    fn step(&mut self, _done: u64, _steps: u64, _loss: f64) {}

    /// An event was written.
    fn event(&mut self, _event: &Event) {}

    /// Metrics of a checkpoint's averaged weights.
    fn evaluate(
        &mut self,
        _step: u64,
        _weights: &Params<f32>,
    ) -> Result<Vec<CheckpointScore>, Box<dyn Error + Send + Sync>> {
        Ok(vec![])
    }

    /// What asks the training to stop: after a step, or during a preview or an evaluation.
    fn stop_request(&self) -> StopRequest {
        StopRequest::default()
    }
}

/// Watches nothing.
pub struct Unwatched;
impl Watcher for Unwatched {}
