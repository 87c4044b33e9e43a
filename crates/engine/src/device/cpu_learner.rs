//! A training step on the CPU.

use super::learner::{LearnerSpec, LossOutputs, Record, TrainingStep};
use crate::cpu::CpuExecutor;
use crate::error::Result;
use crate::optim::{Adam, global_norm};
use crate::ranks::{Ranks, Reduce, ShareSum, from_bytes, to_bytes};
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
    sum: ShareSum,
    /// The mean loss of each run so far, and after it each sample's time and loss.
    results: Vec<f32>,
    /// Who does the other runs.
    ranks: Ranks,
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
        let LearnerSpec { objective, params, adam, seed, accumulate, ranks, .. } = spec;
        let LossOutputs { loss, losses, times, gradients } = objective;
        let own = ranks.own(accumulate);
        let sum = ShareSum::new(own.end - own.start);
        let (vars, gradients, results, feed) = ((loss, losses, times), gradients.to_vec(), vec![], None);
        Ok(CpuLearner { run, params, adam, seed, vars, gradients, accumulate, sum, results, ranks, feed })
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
        self.results.push(self.run.scalar(loss)?);
        for (time, loss) in self.run.get(times)?.iter().zip(self.run.get(losses)?) {
            self.results.extend([*time, *loss]);
        }
        let gradients: Vec<&[f32]> = self.gradients.iter().map(|&g| self.run.get(g)).collect::<Result<_>>()?;
        if self.accumulate == 1 {
            let results = std::mem::take(&mut self.results);
            return update(&mut self.params, &mut self.adam, &gradients, &results, 1).map(Some);
        }
        let share = 1.0 / self.accumulate as f32;
        let mut gradient = gradients.concat();
        gradient.par_iter_mut().for_each(|g| *g *= share);
        self.sum.add(gradient);
        if part + 1 < self.ranks.own(self.accumulate).end {
            return Ok(None);
        }
        let others = self.ranks.others();
        let sum = match (others, self.ranks.reduce) {
            (Some(others), Reduce::Fast) => {
                let mut sum = self.sum.finish(None)?;
                others.sum(&mut sum)?;
                sum
            }
            _ => self.sum.finish(others)?,
        };
        let mut results = std::mem::take(&mut self.results);
        if let Some(others) = others {
            results = from_bytes(&others.gather(&to_bytes(&results))?);
        }
        let mut rest = &sum[..];
        let gradients = gradients.iter().map(|gradient| {
            let (this, after) = rest.split_at(gradient.len());
            rest = after;
            this
        });
        update(&mut self.params, &mut self.adam, &gradients.collect::<Vec<_>>(), &results, self.accumulate).map(Some)
    }
}

/// Updates the weights by the gradients of a whole batch, whose `results` are those of all its parts.
fn update(
    params: &mut Params<f32>,
    adam: &mut Adam<f32>,
    gradients: &[&[f32]],
    results: &[f32],
    parts: u64,
) -> Result<Record> {
    let (mut loss, mut samples) = (0.0, Vec::with_capacity(results.len() / 2));
    for part in results.chunks_exact(results.len() / parts as usize) {
        loss += f64::from(part[0]) / parts as f64;
        samples.extend(part[1..].as_chunks().0.iter().map(|&[time, loss]| (time, loss)));
    }
    let rate = adam.config.rate_at(adam.step);
    if !loss.is_finite() {
        return Ok(Record { loss, norm: global_norm(gradients), rate, applied: false, samples });
    }
    let update = adam.update(params, gradients)?;
    Ok(Record { loss, norm: update.norm, rate: update.rate, applied: update.applied, samples })
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
