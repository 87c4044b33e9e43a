//! What a training run is determined by, and who watches it.

use crate::checkpoint::{Identity, Retention};
use crate::data::Dataset;
use crate::network::UNetConfig;
use crate::objective::{Objective, Prediction};
use crate::path::Path;
use crate::prior::Prior;
use crate::run::{Event, StopSignal};
use crate::sampler::{Sampler, Sampling};
use softdiff_engine::Params;
use softdiff_engine::Precision;
use softdiff_engine::optim::AdamConfig;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

/// Everything that decides what is learnt: with the same setup, build and device, every bit is the same.
pub struct Setup<'a> {
    /// The images.
    pub dataset: &'a Dataset,
    /// The path from them to p_1.
    pub path: Arc<Path>,
    /// p_1, for previews.
    pub prior: &'a Prior,
    /// The network.
    pub network: UNetConfig,
    /// A run or model whose weights it begins with; none for new ones.
    pub from: Option<PathBuf>,
    /// The loss.
    pub objective: Objective,
    /// What the network predicts.
    pub prediction: Prediction,
    /// The losses to expect over time, where the objective's weight is balanced by them.
    pub expected: Option<&'a [f64]>,
    /// The optimiser.
    pub adam: AdamConfig,
    /// Seed of everything random.
    pub seed: u64,
    /// Updates to do.
    pub steps: u64,
    /// Images per update.
    pub batch: usize,
    /// Parts into which the batch is cut, one after the other, to save memory.
    pub accumulate: usize,
    /// Whether cheap results are computed again for the gradients, to save memory. Changes no bit.
    pub recompute: bool,
    /// Whether images are mirrored at random.
    pub mirror: bool,
    /// Whether the times of a batch are stratified.
    pub stratified: bool,
    /// How a GPU stores numbers.
    pub precision: Precision,
    /// Steps between step events.
    pub log_every: u64,
    /// Bins of time in which the loss is reported.
    pub bins: usize,
    /// What checkpoints belong to.
    pub identity: Identity,
    /// Steps between checkpoints; 0 for only one at the end.
    pub checkpoint_every: u64,
    /// Which checkpoints stay.
    pub retention: Retention,
    /// The metric by which the best checkpoint is known.
    pub best_by: Option<String>,
    /// Images from fixed noise now and then.
    pub preview: Option<Preview>,
}

/// Images from fixed noise, made with the first moving average.
pub struct Preview {
    /// Steps between previews.
    pub every: u64,
    /// How many images: those of seeds 0, 1, ...
    pub images: usize,
    /// With which sampler.
    pub sampler: Box<dyn Sampler>,
    /// In which steps.
    pub sampling: Sampling,
}

/// A metric of the weights at a checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
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
    ) -> Result<Vec<Evaluation>, Box<dyn Error + Send + Sync>> {
        Ok(vec![])
    }

    /// Whether to stop, asked at every step.
    fn stop(&self) -> Option<StopSignal> {
        None
    }
}

/// Watches nothing.
pub struct Unwatched;
impl Watcher for Unwatched {}
