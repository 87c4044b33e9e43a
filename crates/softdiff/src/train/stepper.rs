//! A training step on a device with the images it learns from: what `train` runs and `bench step` times.

use super::{RunSpec, SoftStep};
use crate::checkpoint::{TrainingProgress, TrainingState};
use crate::data::Batches;
use softdiff_engine::device::{Learner, LearnerSpec, LossOutputs, Record};
use softdiff_engine::optim::Adam;
use softdiff_engine::{Device, Params, Result};
use std::ops::Range;

/// Where a step's images come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFeed {
    /// The data set in its random order; on a GPU it is kept in memory where it fits, else streamed.
    Dataset,
    /// The data set, streamed to a GPU from the host.
    Streamed,
    /// The first batch again and again.
    Fixed,
}

/// The step of a run on a device: draws a batch, and does forward, backward and the optimiser's update.
pub struct Stepper {
    learner: Learner,
    /// Parts that make one update, and those of them that this process does.
    parts: u64,
    own: Range<u64>,
}

impl Stepper {
    /// Puts `step` on `device`, continuing from the weights and the optimiser's state.
    pub fn new(
        spec: &RunSpec,
        step: &SoftStep,
        (params, adam): (Params<f32>, Adam<f32>),
        device: &Device,
        feed: ImageFeed,
    ) -> Result<Stepper> {
        let SoftStep { graph, inputs, loss, losses, gradients } = step;
        let objective = LossOutputs { loss: *loss, losses: *losses, times: inputs.t, gradients };
        let parts = spec.parts() as u64;
        let (precision, seed) = (spec.precision, spec.seed);
        let learner_spec = LearnerSpec {
            graph,
            objective,
            params,
            adam,
            precision,
            seed,
            accumulate: parts,
            ranks: spec.ranks.clone(),
        };
        let mut learner = Learner::new(device, learner_spec)?;
        let batches = Batches::new(spec.dataset, spec.batch, spec.seed);
        let (images, order) = (spec.dataset.shared_pixels(), batches.order());
        match (feed, learner.cuda()) {
            (ImageFeed::Fixed, _) => {
                learner.set("x0", &batches.gather(0).x0[..spec.batch / parts as usize * order.image_size])?
            }
            (ImageFeed::Streamed, Some(gpu)) => gpu.stream("x0", images, &order)?,
            _ => learner.feed("x0", images, &order)?,
        }
        Ok(Stepper { learner, parts, own: spec.ranks.own(parts) })
    }

    /// Does step number `step`, counted from 0. A GPU is left to run ahead.
    pub fn run(&mut self, step: u64) -> Result<()> {
        for part in self.own.clone() {
            self.learner.run(step * self.parts + part)?;
        }
        Ok(())
    }

    /// What the updates since the last call did, as far as that is known without waiting for a GPU.
    pub fn finished(&mut self) -> Vec<Record> {
        self.learner.finished_records()
    }

    /// Waits for all updates, and gives what those since the last call did.
    pub fn wait(&mut self) -> Result<Vec<Record>> {
        self.learner.records()
    }

    /// The learning rate of the next update.
    pub fn rate(&self) -> f64 {
        self.learner.rate()
    }

    /// The weights and the optimiser's state, at `progress`.
    pub fn state(&self, progress: TrainingProgress) -> Result<TrainingState> {
        let (params, adam) = self.learner.state()?;
        Ok(TrainingState { params, adam, progress })
    }

    /// What it runs on, to be measured.
    pub fn learner(&mut self) -> &mut Learner {
        &mut self.learner
    }
}
