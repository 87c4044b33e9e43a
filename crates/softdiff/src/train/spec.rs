//! What a training run is determined by, and where it is kept.

use super::together::require_shares;
use super::{PathTable, SoftStep, StepNoise, StepSpec, TABLE_ROWS, TrainError};
use crate::checkpoint::{Identity, Retention, TrainingState};
use crate::corruption::Shape;
use crate::data::Dataset;
use crate::model::CheckpointChoice;
use crate::network::Network;
use crate::objective::{Loss, Objective, Prediction};
use crate::path::Path;
use crate::prior::Prior;
use crate::run::{RunError, RunFolder, RunLock};
use crate::sampler::{Sampler, Sampling};
use softdiff_engine::Params;
use softdiff_engine::Precision;
use softdiff_engine::optim::AdamConfig;
use softdiff_engine::ranks::Ranks;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

/// Everything that decides what is learnt: with the same specification, build and device, every bit is the same.
pub struct RunSpec<'a> {
    /// The images.
    pub dataset: &'a Dataset,
    /// The path from them to p_1.
    pub path: Arc<Path>,
    /// p_1, for previews.
    pub prior: &'a Prior,
    /// The network.
    pub network: Arc<dyn Network>,
    /// What its weights begin with; none for new ones.
    pub from: Option<StartFrom>,
    /// What is minimised.
    pub objective: Arc<dyn Loss>,
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
    /// Of the activations on a GPU.
    pub precision: Precision,
    /// Steps between step events; 0 for only one at the end.
    pub log_every: u64,
    /// Bins of time in which the loss is reported.
    pub bins: usize,
    /// What checkpoints belong to.
    pub identity: Identity,
    /// The checkpoint that a run with checkpoints goes on from: by default the last.
    pub checkpoint: CheckpointChoice,
    /// Steps between checkpoints; 0 for only one at the end.
    pub checkpoint_every: u64,
    /// Which checkpoints stay.
    pub retention: Retention,
    /// The metric by which the best checkpoint is known.
    pub best_by: Option<String>,
    /// Images from fixed noise now and then.
    pub preview: Option<Preview>,
    /// The processes that train together, each a part of every batch. All have the same specification, also of what only rank 0
    /// writes: they meet where it is due.
    pub ranks: Ranks,
}

/// The run or model whose weights a run begins with.
#[derive(Clone, Debug)]
pub struct StartFrom {
    /// A run, a model, or an imported file.
    pub place: PathBuf,
    /// What to say if that is an imported file.
    pub import_note: Option<String>,
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

impl<'a> RunSpec<'a> {
    /// The paper's optimiser and objective, new weights, no previews, and one checkpoint at the end.
    pub fn new(dataset: &'a Dataset, path: Arc<Path>, prior: &'a Prior, network: Arc<dyn Network>) -> RunSpec<'a> {
        RunSpec {
            dataset,
            path,
            prior,
            network,
            from: None,
            objective: Arc::new(Objective::PAPER),
            prediction: Prediction::PAPER,
            expected: None,
            adam: AdamConfig::default(),
            seed: 0,
            steps: 1_000_000,
            batch: 128,
            accumulate: 1,
            recompute: false,
            mirror: false,
            stratified: false,
            precision: Precision::Bf16,
            log_every: 100,
            bins: 10,
            identity: Identity::default(),
            checkpoint: CheckpointChoice::Usual,
            checkpoint_every: 0,
            retention: Retention::default(),
            best_by: None,
            preview: None,
            ranks: Ranks::default(),
        }
    }

    /// Parts of a batch: at least one for each rank.
    pub fn parts(&self) -> usize {
        match self.accumulate.max(1) {
            1 => self.ranks.size(),
            parts => parts,
        }
    }

    /// The training step as a graph, for the images of one part of a batch.
    pub fn step(&self) -> Result<SoftStep, TrainError> {
        let parts = self.parts();
        require_shares(self.batch, parts, self.ranks.size())?;
        let images = Shape::new(self.dataset.height(), self.dataset.width(), self.dataset.channels());
        let wrong =
            [self.network.shape(), Some(self.path.shape())].into_iter().flatten().find(|shape| *shape != images);
        if let Some(wanted) = wrong {
            let text = |shape: Shape| format!("{}x{} with {} channels", shape.height, shape.width, shape.channels);
            return Err(TrainError::Shape { images: text(images), network: text(wanted) });
        }
        let spec = StepSpec {
            path: &PathTable::new(&self.path, TABLE_ROWS)?,
            objective: &*self.objective,
            prediction: &self.prediction,
            batch: self.batch / parts,
            parts,
            noise: if self.stratified { StepNoise::Stratified } else { StepNoise::Drawn },
            mirror: self.mirror,
            expected: self.expected,
        };
        Ok(SoftStep::new(&*self.network, &spec, true, self.recompute)?)
    }

    /// The state before the first step, with new weights.
    pub fn new_state(&self, step: &SoftStep) -> TrainingState {
        TrainingState::new(Params::initialise(&step.graph, self.seed), self.adam.clone())
    }
}

/// The folder of a run, locked by this process. Without one, training writes nothing.
#[derive(Clone, Copy)]
pub struct RunStore<'a> {
    /// The folder.
    pub folder: &'a RunFolder,
    /// Its lock.
    pub lock: &'a RunLock,
}

impl RunStore<'_> {
    /// Whether the run has no checkpoint yet.
    pub(super) fn is_new(&self) -> bool {
        self.folder.fs().list(&self.folder.checkpoints()).is_ok_and(|names| names.is_empty())
    }

    /// Puts a file of the run in its place, complete or not at all.
    pub fn publish(&self, path: &FilePath, bytes: &[u8]) -> Result<(), RunError> {
        self.folder.publish(self.lock, path, bytes)
    }
}
