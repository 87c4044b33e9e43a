//! A training step on the CPU.

use super::learner::{LearnerSpec, LossOutputs, Record, TrainingStep};
use crate::cpu::CpuExecutor;
use crate::error::Result;
use crate::optim::{Adam, global_norm};
use crate::rng::Draw;
use crate::shared_bytes::SharedBytes;
use crate::shuffle::Shuffled;
use crate::{Params, Plan, Var};
use rayon::prelude::*;

/// A step on the CPU with its weights, optimiser and data.
pub(super) struct CpuLearner {
    run: CpuExecutor<f32>,
    params: Params<f32>,
    adam: Adam<f32>,
    seed: u64,
    vars: (Var, Var, Var),
    gradients: Vec<Var>,
    /// Runs whose gradients make one update, and the sum of those so far.
    accumulate: u64,
    sums: Vec<Vec<f32>>,
    loss: f64,
    samples: Vec<(f32, f32)>,
    feed: Option<Feed>,
}

/// Images that fill an input.
struct Feed {
    input: String,
    images: SharedBytes,
    order: Shuffled,
    /// Images of a run.
    batch: usize,
}

impl Feed {
    /// The images of run number `run`, gathered on all cores.
    fn batch(&self, run: u64) -> Vec<f32> {
        let size = self.order.image_size;
        let count = (self.images.len() / size) as u64;
        let mut batch = vec![0.0; self.batch * size];
        batch.par_chunks_exact_mut(size).enumerate().for_each(|(slot, image)| {
            let chosen = self.order.at(run * self.batch as u64 + slot as u64, count) as usize;
            let bytes = &self.images[chosen * size..][..size];
            image.iter_mut().zip(bytes).for_each(|(value, &byte)| *value = f32::from(byte) / 255.0);
        });
        batch
    }
}

impl CpuLearner {
    pub fn new(spec: LearnerSpec) -> Result<CpuLearner> {
        let plan = Plan::new(spec.graph, &spec.outputs())?;
        plan.require_host_memory()?;
        let run = CpuExecutor::new(plan);
        let LearnerSpec { objective, params, adam, seed, accumulate, .. } = spec;
        let LossOutputs { loss, losses, times, gradients } = objective;
        let sums = if accumulate > 1 { adam.first.iter().map(|f| vec![0.0; f.len()]).collect() } else { vec![] };
        let (vars, gradients, samples) = ((loss, losses, times), gradients.to_vec(), vec![]);
        let (loss, feed) = (0.0, None);
        Ok(CpuLearner { run, params, adam, seed, vars, gradients, accumulate, sums, loss, samples, feed })
    }

    /// Runs the graph; the record of the update, if this run completes one.
    fn step(&mut self, number: u64) -> Result<Option<Record>> {
        if let Some(feed) = &self.feed {
            self.run.set(&feed.input, &feed.batch(number))?;
        }
        let part = number % self.accumulate;
        // The counter has 32 bits: random numbers repeat after 2^32 updates.
        let draw = Draw { step: (number / self.accumulate) as u32, part: part as u32 };
        self.run.run(&self.params, self.seed, draw)?;
        let (loss, losses, times) = self.vars;
        let samples = self.run.get(times)?.iter().copied().zip(self.run.get(losses)?.iter().copied());
        self.samples.extend(samples);
        self.loss += f64::from(self.run.scalar(loss)?) / self.accumulate as f64;
        let mut gradients: Vec<&[f32]> = self.gradients.iter().map(|&g| self.run.get(g)).collect::<Result<_>>()?;
        if self.accumulate > 1 {
            let share = 1.0 / self.accumulate as f32;
            for (sum, gradient) in self.sums.iter_mut().zip(&gradients) {
                for (sum, g) in sum.iter_mut().zip(*gradient) {
                    *sum = if part == 0 { share * g } else { *sum + share * g };
                }
            }
            gradients = self.sums.iter().map(Vec::as_slice).collect();
        }
        if part + 1 < self.accumulate {
            return Ok(None);
        }
        let loss = std::mem::take(&mut self.loss);
        let samples = std::mem::take(&mut self.samples);
        let rate = self.adam.config.rate_at(self.adam.step);
        if !loss.is_finite() {
            return Ok(Some(Record { loss, norm: global_norm(&gradients), rate, applied: false, samples }));
        }
        let update = self.adam.update(&mut self.params, &gradients)?;
        Ok(Some(Record { loss, norm: update.norm, rate: update.rate, applied: update.applied, samples }))
    }
}

impl TrainingStep for CpuLearner {
    fn plan(&self) -> &Plan {
        self.run.plan()
    }

    fn set(&mut self, name: &str, values: &[f32]) -> Result<()> {
        self.run.set(name, values)
    }

    fn feed(&mut self, name: &str, images: &SharedBytes, order: &Shuffled) -> Result<()> {
        let batch = self.run.plan().images_of(name, order.image_size)?;
        self.feed = Some(Feed { input: name.into(), images: images.clone(), order: *order, batch });
        Ok(())
    }

    fn run(&mut self, run: u64) -> Result<Vec<Record>> {
        Ok(self.step(run)?.into_iter().collect())
    }

    fn wait(&mut self) -> Result<Vec<Record>> {
        Ok(vec![])
    }

    fn rate(&self) -> f64 {
        self.adam.config.rate_at(self.adam.step)
    }

    fn state(&self) -> Result<(Params<f32>, Adam<f32>)> {
        Ok((self.params.clone(), self.adam.clone()))
    }
}
