//! A training step on a GPU: one graph launch, its results in a ring buffer that the host reads from time to time. With other
//! ranks each reads its own; what all did is put together at points that they share.

use super::arguments::{RecordStepArgs, int};
use super::driver::Buffer;
use super::executor::CudaExecutor;
use super::gradient_sum::ShareEnd;
use super::images::BatchShares;
use super::kernels::KernelName;
use super::optim::DeviceAdam;
use super::params::{DeviceParams, from_bytes};
use super::session::Session;
use crate::device::{LearnerSpec, Record, TrainingStep};
use crate::error::{Error, Result};
use crate::ranks::{Ranks, from_bytes as values_from, to_bytes as bytes_of};
use crate::rng::Draw;
use crate::shared_bytes::SharedBytes;
use crate::shuffle::Shuffled;
use crate::{Params, Plan, Var, optim};
use std::sync::Arc;

/// Updates that the ring buffer holds.
const UPDATES: u64 = 64;
/// Values at the beginning of a row of the ring buffer: loss, norm, applied, and padding.
const HEAD: usize = 4;

/// A step on a GPU with its weights and optimiser.
pub(crate) struct CudaLearner {
    run: CudaExecutor,
    params: DeviceParams,
    adam: DeviceAdam,
    host: Params<f32>,
    ring: Buffer,
    samples: usize,
    /// Runs that make one update, and how many of them are done here.
    parts: u64,
    own: u64,
    /// Who does the others.
    ranks: Ranks,
    /// Updates applied, as far as the records were read.
    updates: u64,
    /// Runs whose records were not read yet, by number.
    waiting: Vec<u64>,
}

impl CudaLearner {
    /// Adds the update and the records to `run`'s graph, continuing from the state of `spec`.
    pub fn new(
        session: &Arc<Session>,
        mut run: CudaExecutor,
        params: DeviceParams,
        spec: LearnerSpec,
    ) -> Result<CudaLearner> {
        let LearnerSpec { objective, params: host, adam: state, accumulate, ranks, .. } = spec;
        let (parts, config) = (accumulate.max(1), state.config.clone());
        let own = ranks.own(parts);
        run.divide(BatchShares { parts, own: own.end - own.start, first: own.start });
        let full = |run: &CudaExecutor, var: Var| match run.output(var)? {
            (address, false) => Ok(address),
            (_, true) => Err(Error::Device {
                what: "a loss in 16 bits".into(),
                problem: "losses and times are reported in f32".into(),
                hint: "cast the loss to full precision in the graph".into(),
            }),
        };
        let [loss, losses, times] = [objective.loss, objective.losses, objective.times].map(|var| full(&run, var));
        let (loss, losses, times) = (loss?, losses?, times?);
        let adam = if parts == 1 {
            let gradients = run.gradients(objective.gradients)?;
            let (adam, update) = DeviceAdam::new(session, &run, config, &host, &params, &gradients, Some(loss))?;
            run.append(update);
            adam
        } else {
            let end = ShareEnd::new(&run, objective.gradients, objective.loss, parts, &ranks)?;
            let (gradients, loss) = end.sums();
            let (adam, update) = DeviceAdam::new(session, &run, config, &host, &params, gradients, Some(loss))?;
            run.end_by(end.then(update));
            adam
        };
        adam.restore(&state, &host)?;
        let samples = run.plan().shape(objective.losses).numel();
        let ring = session.device.alloc((parts * UPDATES) as usize * (HEAD + 2 * samples) * 4)?;
        let arguments = RecordStepArgs {
            ring: ring.address,
            step: run.step_address(),
            state: adam.state_address(),
            loss,
            losses,
            times,
            n: int(samples),
            parts: int(parts as usize),
            updates: int(UPDATES as usize),
        };
        let launch = run.kernel(KernelName::RecordStep, 1, &arguments)?;
        run.append([launch]);
        let (own, updates, waiting) = (own.end - own.start, state.step, vec![]);
        Ok(CudaLearner { run, params, adam, host, ring, samples, parts, own, ranks, updates, waiting })
    }
}

impl TrainingStep for CudaLearner {
    fn plan(&self) -> &Plan {
        self.run.plan()
    }

    fn set(&mut self, name: &str, values: &[f32]) -> Result<()> {
        self.run.set(name, values)
    }

    fn feed(&mut self, name: &str, images: &SharedBytes, order: &Shuffled) -> Result<()> {
        self.run.feed(name, images, order)
    }

    fn cuda(&mut self) -> Option<&mut CudaExecutor> {
        Some(&mut self.run)
    }

    /// Gives records only when the ring buffer is full.
    fn run(&mut self, number: u64) -> Result<Vec<Record>> {
        let full = self.waiting.len() as u64 >= self.own * (UPDATES - 1);
        let records = if full { self.wait()? } else { vec![] };
        // The counter has 32 bits: random numbers repeat after 2^32 updates.
        self.run.run(Draw { step: (number / self.parts) as u32, part: (number % self.parts) as u32 })?;
        self.waiting.push(number);
        Ok(records)
    }

    fn wait(&mut self) -> Result<Vec<Record>> {
        if self.waiting.is_empty() {
            return Ok(vec![]);
        }
        let mut bytes = vec![0; self.ring.bytes];
        self.ring.read(0, &mut bytes)?;
        let ring = from_bytes(&bytes);
        let width = HEAD + 2 * self.samples;
        let config = self.adam.config();
        let rows = self.parts * UPDATES;
        let row = |number: u64| &ring[(number % rows) as usize * width..][..width];
        let updates = self.waiting.len() / self.own as usize;
        let done = self.waiting.drain(..updates * self.own as usize);
        let rows: Vec<f32> = done.flat_map(row).copied().collect();
        let mut records = Vec::new();
        for update in of_updates(&self.ranks, rows, updates)? {
            let rows: Vec<&[f32]> = update.chunks_exact(width).collect();
            // Only the last run of a rank knows what the update did; all ranks did the same.
            let last = rows[rows.len() - 1];
            let applied = last[2] != 0.0;
            let pairs = rows.iter().flat_map(|row| {
                let (times, losses) = row[HEAD..].split_at(self.samples);
                times.iter().copied().zip(losses.iter().copied())
            });
            records.push(Record {
                loss: rows.iter().map(|row| f64::from(row[0]) / self.parts as f64).sum(),
                norm: f64::from(last[1]),
                rate: config.rate_at(self.updates),
                applied,
                samples: pairs.collect(),
            });
            self.updates += u64::from(applied);
        }
        Ok(records)
    }

    fn rate(&self) -> f64 {
        self.adam.config().rate_at(self.updates)
    }

    fn state(&self) -> Result<(Params<f32>, optim::Adam<f32>)> {
        let mut params = self.host.clone();
        self.params.download(&mut params)?;
        let adam = self.adam.snapshot(&self.host)?;
        Ok((params, adam))
    }
}

/// The rows of all ranks, in their order, for each update; `rows` are this rank's. All ranks ask after the same updates.
fn of_updates(ranks: &Ranks, rows: Vec<f32>, updates: usize) -> Result<Vec<Vec<f32>>> {
    let each = rows.len() / updates.max(1);
    let all = match ranks.others() {
        Some(others) => values_from(&others.gather(&bytes_of(&rows))?),
        None => rows,
    };
    let of_rank = |rank: usize, update: usize| &all[(rank * updates + update) * each..][..each];
    Ok((0..updates).map(|update| (0..ranks.size()).flat_map(|rank| of_rank(rank, update)).copied().collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::{Communicator, Reduce, ThreadRank};
    use std::thread;

    #[test]
    fn the_samples_of_an_update_are_those_of_all_ranks_in_order() {
        thread::scope(|scope| {
            for rank in ThreadRank::all(3) {
                scope.spawn(move || {
                    // Two updates of two values each; the hundreds say whose.
                    let rows: Vec<f32> = (0..4).map(|i| (100 * rank.rank() + i) as f32).collect();
                    let ranks = Ranks::new(Arc::new(rank), Reduce::Exact);
                    let found = of_updates(&ranks, rows, 2).unwrap();
                    assert_eq!(found, [[0.0, 1.0, 100.0, 101.0, 200.0, 201.0], [2.0, 3.0, 102.0, 103.0, 202.0, 203.0]]);
                });
            }
        });
        assert_eq!(of_updates(&Ranks::default(), vec![1.0, 2.0], 2).unwrap(), [[1.0], [2.0]]);
    }
}
