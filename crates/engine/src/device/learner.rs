//! A training step on a device: forward, backward, and the optimiser's update.

use super::Device;
use crate::cuda::{self, DeviceParams};
use crate::error::Result;
use crate::optim::{Adam, global_norm};
use crate::shuffle::Shuffled;
use crate::{Graph, Params, Plan, Precision, Var, cpu};
use std::sync::Arc;

/// What is learnt from in a graph.
#[derive(Clone, Copy)]
pub struct Objective<'a> {
    /// The mean loss of a batch.
    pub loss: Var,
    /// Each sample's loss.
    pub losses: Var,
    /// Each sample's time: what its loss is reported by.
    pub times: Var,
    /// Gradients of the trainable parameters, in order.
    pub gradients: &'a [Var],
}

/// What one update did.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Mean loss.
    pub loss: f64,
    /// Global norm of the gradient before clipping.
    pub norm: f64,
    /// Learning rate.
    pub rate: f64,
    /// False when loss or gradient was not finite: then no weight was touched.
    pub applied: bool,
    /// Time and loss of each sample.
    pub samples: Vec<(f32, f32)>,
}

/// A step's graph, weights and optimiser on a device.
pub struct Learner {
    on: On,
    records: Vec<Record>,
}

// The CPU's side is the larger and the usual one.
#[allow(clippy::large_enum_variant)]
enum On {
    Cpu(OnCpu),
    Cuda(cuda::CudaLearner),
}

struct OnCpu {
    run: cpu::Executor<f32>,
    params: Params<f32>,
    adam: Adam<f32>,
    seed: u64,
    vars: (Var, Var, Var),
    gradients: Vec<Var>,
    /// Steps whose gradients make one update, and the sum of those so far.
    accumulate: u64,
    sums: Vec<Vec<f32>>,
    loss: f64,
    samples: Vec<(f32, f32)>,
}

impl Learner {
    /// Prepares `graph` on `device`, continuing from `params` and `adam`; `accumulate` runs make one update.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        device: &Device,
        graph: &Graph,
        objective: Objective,
        params: Params<f32>,
        adam: Adam<f32>,
        precision: Precision,
        seed: u64,
        accumulate: u64,
    ) -> Result<Learner> {
        let Objective { loss, losses, times, gradients } = objective;
        let mut outputs = gradients.to_vec();
        outputs.extend([loss, losses, times]);
        let on = match device {
            Device::Cpu => {
                let run = cpu::Executor::new(Plan::new(graph, &outputs)?);
                let sums =
                    if accumulate > 1 { adam.first.iter().map(|f| vec![0.0; f.len()]).collect() } else { vec![] };
                let (vars, gradients, samples) = ((loss, losses, times), gradients.to_vec(), vec![]);
                On::Cpu(OnCpu { run, params, adam, seed, vars, gradients, accumulate, sums, loss: 0.0, samples })
            }
            Device::Cuda(session) => {
                let values = DeviceParams::new(session, &params)?;
                let run = cuda::CudaExecutor::new(session, graph, &outputs, &values, precision, seed)?;
                On::Cuda(cuda::CudaLearner::new(session, run, objective, params, values, &adam, accumulate.max(1))?)
            }
        };
        Ok(Learner { on, records: vec![] })
    }

    /// The plan it runs.
    pub fn plan(&self) -> &Plan {
        match &self.on {
            On::Cpu(cpu) => cpu.run.plan(),
            On::Cuda(cuda) => cuda.run.plan(),
        }
    }

    /// Sets an input by name.
    pub fn set(&mut self, name: &str, values: &[f32]) -> Result<()> {
        match &mut self.on {
            On::Cpu(cpu) => cpu.run.set(name, values),
            On::Cuda(cuda) => cuda.run.set(name, values),
        }
    }

    /// Lets a GPU fill the input `name` by itself, from `images` (values of one byte, given as 0 to 1) in this order:
    /// run `r` sees places `r * batch` and on. On a CPU the caller goes on setting it.
    pub fn feed(&mut self, name: &str, images: &Arc<Vec<u8>>, order: &Shuffled) -> Result<()> {
        match &mut self.on {
            On::Cpu(_) => Ok(()),
            On::Cuda(cuda) => cuda.run.feed(name, images, order),
        }
    }

    /// The executor on a GPU, for what only a GPU has: the time of each kernel, and pictures streamed from the host.
    pub fn gpu(&mut self) -> Option<&mut cuda::CudaExecutor> {
        match &mut self.on {
            On::Cpu(_) => None,
            On::Cuda(cuda) => Some(&mut cuda.run),
        }
    }

    /// Runs number `run` since training began: a step, or a part of one. A GPU goes on by itself.
    pub fn run(&mut self, run: u64) -> Result<()> {
        match &mut self.on {
            On::Cpu(cpu) => self.records.extend(cpu.step(run)?),
            On::Cuda(cuda) => self.records.extend(cuda.step(run)?),
        }
        Ok(())
    }

    /// Waits, and gives what the updates since the last call did, in order.
    pub fn records(&mut self) -> Result<Vec<Record>> {
        if let On::Cuda(cuda) = &mut self.on {
            self.records.extend(cuda.drain()?);
        }
        Ok(std::mem::take(&mut self.records))
    }

    /// The learning rate of the next update, as far as the records were read.
    pub fn rate(&self) -> f64 {
        match &self.on {
            On::Cpu(cpu) => cpu.adam.config.rate_at(cpu.adam.step),
            On::Cuda(cuda) => cuda.rate(),
        }
    }

    /// The weights and the optimiser's state now.
    pub fn state(&self) -> Result<(Params<f32>, Adam<f32>)> {
        match &self.on {
            On::Cpu(cpu) => Ok((cpu.params.clone(), cpu.adam.clone())),
            On::Cuda(cuda) => cuda.state(),
        }
    }
}

impl OnCpu {
    fn step(&mut self, number: u64) -> Result<Option<Record>> {
        // Counters have 32 bits; after 2^32 steps numbers would repeat.
        self.run.run(&self.params, self.seed, number as u32)?;
        let (loss, losses, times) = self.vars;
        let samples = self.run.get(times)?.iter().copied().zip(self.run.get(losses)?.iter().copied());
        self.samples.extend(samples);
        self.loss += f64::from(self.run.scalar(loss)?) / self.accumulate as f64;
        let mut gradients: Vec<&[f32]> = self.gradients.iter().map(|&g| self.run.get(g)).collect::<Result<_>>()?;
        let part = number % self.accumulate;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Init;
    use crate::optim::AdamConfig;

    /// Least squares `1/2 (w x)^2` with each sample's time an input.
    fn learner(samples: usize, accumulate: u64) -> Learner {
        let mut g = Graph::new();
        let x = g.input("x", [samples]).unwrap();
        let t = g.random_uniform([samples], 1).unwrap();
        let w = g.param("w", [1], Init::Constant(2.0)).unwrap();
        let y = g.mul(x, w).unwrap();
        let squares = g.square(y).unwrap();
        let losses = g.scale(squares, 0.5).unwrap();
        let loss = g.mean(losses).unwrap();
        let gradients = g.parameter_gradients(loss).unwrap();
        let params = Params::initialise(&g, 0);
        let config = AdamConfig { rate: 0.1, warmup: 0, clip: None, ema: vec![0.5], ..AdamConfig::default() };
        let adam = Adam::new(config, &params);
        let objective = Objective { loss, losses, times: t, gradients: &gradients };
        Learner::new(&Device::Cpu, &g, objective, params, adam, Precision::F32, 0, accumulate).unwrap()
    }

    #[test]
    fn two_halves_of_a_batch_make_the_update_of_the_whole() {
        let mut whole = learner(4, 1);
        whole.set("x", &[1.0, 2.0, 3.0, 4.0]).unwrap();
        whole.run(0).unwrap();
        let mut halves = learner(2, 2);
        halves.set("x", &[1.0, 2.0]).unwrap();
        halves.run(0).unwrap();
        assert!(halves.records().unwrap().is_empty());
        halves.set("x", &[3.0, 4.0]).unwrap();
        halves.run(1).unwrap();
        let (a, b) = (whole.records().unwrap(), halves.records().unwrap());
        assert_eq!((a[0].loss, a[0].norm, a.len(), b.len()), (b[0].loss, b[0].norm, 1, 1));
        assert_eq!(a[0].loss, 15.0);
        assert_eq!(b[0].samples.len(), 4);
        assert_eq!(whole.state().unwrap(), halves.state().unwrap());
    }

    #[test]
    fn a_loss_that_is_not_finite_touches_nothing_and_is_reported() {
        let mut learner = learner(2, 1);
        let before = learner.state().unwrap();
        for bad in [f32::NAN, f32::INFINITY] {
            learner.set("x", &[1.0, bad]).unwrap();
            learner.run(0).unwrap();
            let records = learner.records().unwrap();
            assert!(!records[0].applied && !records[0].loss.is_finite());
        }
        assert_eq!(learner.state().unwrap(), before);
        learner.set("x", &[1.0, 1.0]).unwrap();
        learner.run(2).unwrap();
        assert!(learner.records().unwrap()[0].applied && learner.state().unwrap() != before);
    }
}
