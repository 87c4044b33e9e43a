//! A training step on a GPU: one graph launch, its results in a ring that the host reads now and then.

use super::driver::{Buffer, Launch};
use super::executor::{DeviceParams, Executor, Session, from_bytes};
use super::lower::Command;
use super::optim::Adam;
use crate::device::{Objective, Record};
use crate::error::{Error, Result};
use crate::{Params, Var, optim};
use std::sync::Arc;

/// Steps the host may be behind.
const ROWS: u64 = 64;
/// What a row of the ring begins with: loss, norm, applied, and one to spare.
const HEAD: usize = 4;

/// A step on a GPU with its weights and optimiser.
pub(crate) struct Learner {
    pub run: Executor,
    params: DeviceParams,
    adam: Adam,
    host: Params<f32>,
    ring: Buffer,
    samples: usize,
    /// Updates applied, as far as the records were read.
    updates: u64,
    /// Runs whose records were not read yet, by number.
    waiting: Vec<u64>,
}

impl Learner {
    /// Adds the update and the records to `run`'s graph, continuing from `adam`.
    pub fn new(
        session: &Arc<Session>,
        mut run: Executor,
        objective: Objective,
        host: Params<f32>,
        params: DeviceParams,
        state: &optim::Adam<f32>,
    ) -> Result<Learner> {
        let adam = Adam::attach(session, &mut run, state.config.clone(), &host, &params, objective.gradients)?;
        adam.restore(state, &host)?;
        let samples = run.plan().shape(objective.losses).numel();
        let ring = session.device.alloc(ROWS as usize * (HEAD + 2 * samples) * 4)?;
        let full = |var: Var| match run.output(var)? {
            (address, false) => Ok(address),
            (_, true) => Err(Error::Device {
                what: "a loss in 16 bits".into(),
                problem: "losses and times are reported in f32".into(),
                hint: "cast the loss to full precision in the graph".into(),
            }),
        };
        let arguments = vec![
            ring.address,
            run.step_address(),
            adam.state_address(),
            full(objective.loss)?,
            full(objective.losses)?,
            full(objective.times)?,
            samples as u64,
            ROWS,
        ];
        let function = session.lock().kernels.get("record_step")?;
        let launch = Launch { function, grid: [1, 1, 1], block: [256, 1, 1], shared: 0, cluster: 1, arguments };
        run.append(vec![Command::Kernel(launch)]);
        Ok(Learner { run, params, adam, host, ring, samples, updates: state.step, waiting: vec![] })
    }

    /// Launches a step. Gives records only when the ring is full.
    pub fn step(&mut self, number: u64) -> Result<Vec<Record>> {
        let full = self.waiting.len() as u64 >= ROWS;
        let records = if full { self.drain()? } else { vec![] };
        self.run.run(number as u32)?;
        self.waiting.push(number);
        Ok(records)
    }

    /// Waits for all steps and reads their records.
    pub fn drain(&mut self) -> Result<Vec<Record>> {
        if self.waiting.is_empty() {
            return Ok(vec![]);
        }
        let mut bytes = vec![0; self.ring.bytes];
        self.ring.read(0, &mut bytes)?;
        let ring = from_bytes(&bytes);
        let width = HEAD + 2 * self.samples;
        let config = self.adam.config();
        let mut records = Vec::with_capacity(self.waiting.len());
        for number in self.waiting.drain(..) {
            let row = &ring[u64::from(number as u32) as usize % ROWS as usize * width..][..width];
            let (times, losses) = row[HEAD..].split_at(self.samples);
            let applied = row[2] != 0.0;
            records.push(Record {
                loss: f64::from(row[0]),
                norm: f64::from(row[1]),
                rate: config.rate_at(self.updates),
                applied,
                samples: times.iter().copied().zip(losses.iter().copied()).collect(),
            });
            self.updates += u64::from(applied);
        }
        Ok(records)
    }

    /// The learning rate of the next update.
    pub fn rate(&self) -> f64 {
        self.adam.config().rate_at(self.updates)
    }

    /// The weights and the optimiser's state.
    pub fn state(&self) -> Result<(Params<f32>, optim::Adam<f32>)> {
        let mut params = self.host.clone();
        self.params.download(&mut params)?;
        let adam = self.adam.snapshot(&self.host)?;
        Ok((params, adam))
    }
}
