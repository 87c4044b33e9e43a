//! A training step on a device: forward, backward, and the optimiser's update.

use super::Device;
use super::cpu_learner::CpuLearner;
use crate::cuda::{CudaExecutor, CudaLearner, DeviceParams, Session};
use crate::error::{Error, Result};
use crate::optim::Adam;
use crate::ranks::Ranks;
use crate::shared_bytes::SharedBytes;
use crate::shuffle::Shuffled;
use crate::{Graph, Params, Plan, Precision, Var};
use std::collections::HashSet;

/// What is learnt from in a graph.
#[derive(Clone, Copy)]
pub struct LossOutputs<'a> {
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

/// What a [`Learner`] is made of.
pub struct LearnerSpec<'a> {
    /// Forward and backward pass.
    pub graph: &'a Graph,
    /// What is learnt from in it.
    pub objective: LossOutputs<'a>,
    /// The weights to begin with.
    pub params: Params<f32>,
    /// The optimiser's state to begin with.
    pub adam: Adam<f32>,
    /// The precision of a GPU.
    pub precision: Precision,
    /// Seed of the random numbers in the graph.
    pub seed: u64,
    /// Runs whose gradients make one update.
    pub accumulate: u64,
    /// The processes that share these runs; their number divides that of the runs.
    pub ranks: Ranks,
}

impl LearnerSpec<'_> {
    /// What a plan must keep.
    pub(super) fn outputs(&self) -> Vec<Var> {
        let LossOutputs { loss, losses, times, gradients } = self.objective;
        [gradients, &[loss, losses, times]].concat()
    }
}

/// A step's graph, weights, optimiser and data on a device.
pub struct Learner {
    step: Box<dyn TrainingStep>,
    records: Vec<Record>,
}

/// A training step on one kind of device.
pub(crate) trait TrainingStep: Send {
    fn plan(&self) -> &Plan;
    fn set(&mut self, name: &str, values: &[f32]) -> Result<()>;
    fn feed(&mut self, name: &str, images: &SharedBytes, order: &Shuffled) -> Result<()>;
    /// Does run number `run`, or enqueues it; the records that are there already.
    fn run(&mut self, run: u64) -> Result<Vec<Record>>;
    /// Waits for all runs; the records that were not given yet.
    fn wait(&mut self) -> Result<Vec<Record>>;
    /// The executor, where it is a GPU's.
    fn cuda(&mut self) -> Option<&mut CudaExecutor> {
        None
    }
    fn rate(&self) -> f64;
    fn state(&self) -> Result<(Params<f32>, Adam<f32>)>;
}

/// Makes an executor with the engines for convolutions that rank 0 chose: others would round otherwise. The others wait until rank
/// 0 has measured them.
fn with_engines_of_first(
    session: &Session,
    ranks: &Ranks,
    make: impl FnOnce() -> Result<CudaExecutor>,
) -> Result<CudaExecutor> {
    if ranks.others().is_none() {
        return make();
    }
    if ranks.is_first() {
        let run = make()?;
        ranks.broadcast(session.engines().into_bytes())?;
        return Ok(run);
    }
    let engines = String::from_utf8_lossy(&ranks.broadcast(vec![])?).into_owned();
    session.adopt_engines(&engines);
    let run = make()?;
    let known: HashSet<&str> = engines.lines().collect();
    match session.engines().lines().find(|engine| !known.contains(engine)) {
        None => Ok(run),
        Some(engine) => Err(Error::Device {
            what: format!("rank {} cannot use the engines for convolutions that rank 0 chose", ranks.rank()),
            problem: format!("it has {engine}"),
            hint: "use the same kind of GPU and the same cuDNN on all ranks".into(),
        }),
    }
}

impl Learner {
    /// Prepares a training step on `device`.
    pub fn new(device: &Device, spec: LearnerSpec) -> Result<Learner> {
        let step: Box<dyn TrainingStep> = match device {
            Device::Cpu => Box::new(CpuLearner::new(spec)?),
            Device::Cuda(_) if spec.ranks.size() > 1 && spec.ranks.gpu().is_none() => {
                return Err(Error::Device {
                    what: "several ranks on GPUs".into(),
                    problem: "nothing carries their gradients".into(),
                    hint: "join the GPUs by NCCL: Ranks::with_gpus".into(),
                });
            }
            Device::Cuda(session) => {
                let params = DeviceParams::new(session, &spec.params)?;
                let outputs = spec.outputs();
                let run = with_engines_of_first(session, &spec.ranks, || {
                    CudaExecutor::new(session, spec.graph, &outputs, &params, spec.precision, spec.seed)
                })?;
                Box::new(CudaLearner::new(session, run, params, spec)?)
            }
        };
        Ok(Learner { step, records: vec![] })
    }

    /// The plan it runs.
    pub fn plan(&self) -> &Plan {
        self.step.plan()
    }

    /// Sets an input by name.
    pub fn set(&mut self, name: &str, values: &[f32]) -> Result<()> {
        self.step.set(name, values)
    }

    /// From now on every run fills the input `name` with `images` (bytes, given as 0 to 1) in this order: run `r` sees places
    /// `r * batch` and on.
    pub fn feed(&mut self, name: &str, images: &SharedBytes, order: &Shuffled) -> Result<()> {
        self.step.feed(name, images, order)
    }

    /// The executor on a GPU, for what only a GPU has: the time of each kernel, and images streamed from the host.
    pub fn cuda(&mut self) -> Option<&mut CudaExecutor> {
        self.step.cuda()
    }

    /// Does run number `run` since training began: a step, or a part of one. A GPU only enqueues it.
    pub fn run(&mut self, run: u64) -> Result<()> {
        self.records.extend(self.step.run(run)?);
        Ok(())
    }

    /// What the updates since the last call did, in order, as far as it is known without waiting for a GPU.
    pub fn finished_records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }

    /// Waits for all runs, and gives what the updates since the last call did, in order.
    pub fn records(&mut self) -> Result<Vec<Record>> {
        self.records.extend(self.step.wait()?);
        Ok(self.finished_records())
    }

    /// The learning rate of the next update, as far as the records were read.
    pub fn rate(&self) -> f64 {
        self.step.rate()
    }

    /// The weights and the optimiser's state now.
    pub fn state(&self) -> Result<(Params<f32>, Adam<f32>)> {
        self.step.state()
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
        let objective = LossOutputs { loss, losses, times: t, gradients: &gradients };
        let (graph, precision) = (&g, Precision::F32);
        Learner::new(
            &Device::Cpu,
            LearnerSpec { graph, objective, params, adam, precision, seed: 0, accumulate, ranks: Ranks::default() },
        )
        .unwrap()
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

    #[test]
    fn a_fed_learner_sees_the_images_of_each_run() {
        let images: SharedBytes = (0..23).map(|i| i * 11).collect::<Vec<u8>>().into();
        let order = Shuffled { image_size: 1, seed: 5, purpose: 9 };
        let (mut fed, mut set) = (learner(4, 2), learner(4, 2));
        fed.feed("x", &images, &order).unwrap();
        for run in 0..12 {
            let image = |slot: u64| images[order.at(run * 4 + slot, 23) as usize];
            set.set("x", &[0, 1, 2, 3].map(|slot| f32::from(image(slot)) / 255.0)).unwrap();
            fed.run(run).unwrap();
            set.run(run).unwrap();
        }
        assert_eq!(fed.finished_records(), set.records().unwrap());
        assert_eq!(fed.state().unwrap(), set.state().unwrap());
        assert!(fed.feed("y", &images, &order).is_err());
    }
}
