//! A training step on a GPU: one graph launch, its results in a ring buffer that the host reads from time to time.

use super::arguments::{RecordStepArgs, int};
use super::driver::Buffer;
use super::executor::CudaExecutor;
use super::kernels::KernelName;
use super::optim::{Accumulation, DeviceAdam};
use super::params::{DeviceParams, from_bytes};
use super::session::Session;
use crate::device::{LearnerSpec, Record, TrainingStep};
use crate::error::{Error, Result};
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
    /// Runs that make one update.
    parts: u64,
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
        let LearnerSpec { objective, params: host, adam: state, accumulate, .. } = spec;
        let parts = accumulate.max(1);
        run.divide(parts);
        let waits = Accumulation { loss: Some(objective.loss), parts };
        let config = state.config.clone();
        let adam = DeviceAdam::accumulate(session, &mut run, config, &host, &params, objective.gradients, waits)?;
        adam.restore(&state, &host)?;
        let samples = run.plan().shape(objective.losses).numel();
        let ring = session.device.alloc((parts * UPDATES) as usize * (HEAD + 2 * samples) * 4)?;
        let full = |var: Var| match run.output(var)? {
            (address, false) => Ok(address),
            (_, true) => Err(Error::Device {
                what: "a loss in 16 bits".into(),
                problem: "losses and times are reported in f32".into(),
                hint: "cast the loss to full precision in the graph".into(),
            }),
        };
        let arguments = RecordStepArgs {
            ring: ring.address,
            step: run.step_address(),
            state: adam.state_address(),
            loss: full(objective.loss)?,
            losses: full(objective.losses)?,
            times: full(objective.times)?,
            n: int(samples),
            parts: int(parts as usize),
            updates: int(UPDATES as usize),
        };
        let launch = run.launch(KernelName::RecordStep, 1, &arguments)?;
        run.append(vec![launch]);
        Ok(CudaLearner { run, params, adam, host, ring, samples, parts, updates: state.step, waiting: vec![] })
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
        let full = self.waiting.len() as u64 >= self.parts * (UPDATES - 1);
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
        let whole = self.waiting.len() / self.parts as usize * self.parts as usize;
        let mut records = Vec::new();
        for runs in self.waiting.drain(..whole).collect::<Vec<_>>().chunks(self.parts as usize) {
            let last = row(runs[runs.len() - 1]);
            let applied = last[2] != 0.0;
            let pairs = runs.iter().flat_map(|&number| {
                let (times, losses) = row(number)[HEAD..].split_at(self.samples);
                times.iter().copied().zip(losses.iter().copied())
            });
            records.push(Record {
                loss: runs.iter().map(|&number| f64::from(row(number)[0]) / self.parts as f64).sum(),
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
