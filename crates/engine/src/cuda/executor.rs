//! Runs a plan on a GPU: commands lowered once, captured as one CUDA graph, launched again and again.

use super::arguments::{Arguments, CarryArgs, int};
use super::compile;
use super::concat_elision;
use super::cudnn::{Cudnn, Problem};
use super::driver::{Address, Buffer, CudaDevice, CudaEvent, CudaGraph, Launch};
use super::gradient_sum::ShareEnd;
use super::images::{BatchShares, Shards};
use super::kernels::KernelName;
use super::lower::{Command, Lowering};
use super::optim::GradientAt;
use super::params::{DeviceParams, from_bytes, to_bytes};
use super::select::{CompileTarget, Selected};
use super::session::{Libraries, Session};
use super::streams::{self, StepCommands};
use crate::cpu::NodeTime;
use crate::error::{Error, Result};
use crate::rng::Draw;
use crate::{Graph, Place, Plan, Precision, Storage, Var};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A plan with its device memory.
pub struct CudaExecutor {
    session: Arc<Session>,
    plan: Plan,
    precision: Precision,
    storages: Vec<(Var, Storage)>,
    arena: Buffer,
    inputs: Vec<Buffer>,
    /// The numbers of the run: step, and part of its batch.
    step: Buffer,
    /// Which parts of a batch are computed here.
    shares: BatchShares,
    /// Run before the planned steps.
    before: Vec<Command>,
    /// Streams their images from the host, if they do not fit the device.
    shards: Option<Shards>,
    commands: Vec<Command>,
    /// Those of each planned step.
    places: Vec<StepCommands>,
    planned: usize,
    /// What follows the planned steps where a run is one of several shares of a batch.
    share_end: Option<ShareEnd>,
    /// A run, and one that completes a batch of several shares.
    replays: [Replay; 2],
    fork: CudaEvent,
    _constants: Vec<Buffer>,
    _tables: Vec<Buffer>,
}

/// A sequence of commands that is enqueued again and again.
#[derive(Default)]
struct Replay {
    is_warm: bool,
    graph: Option<CudaGraph>,
}

/// Selects kernels, measures the convolutions that have not been measured yet, and plans the memory.
fn plan_with(
    cudnn: &mut Cudnn,
    graph: &Graph,
    outputs: &[Var],
    target: CompileTarget,
) -> Result<(Vec<Selected>, Plan)> {
    let nodes = compile::order(graph, outputs, target);
    let mut views = concat_elision::find(&nodes, graph, outputs, target);
    cudnn.prepare(nodes.iter().filter_map(|selected| selected.problem(|var| views.pitch(var, graph))));
    concat_elision::refuse(&mut views, &nodes, graph, |problem| cudnn.plan(problem).is_ok());
    let workspace = |problem: &Problem| Ok(cudnn.plan(problem)?.workspace);
    let plan = compile::place(graph, &nodes, outputs, target, views, workspace)?;
    cudnn.save_choices();
    Ok((nodes, plan))
}

/// An error if the plan's arena is larger than the free memory.
fn check_memory(device: &CudaDevice, plan: &Plan) -> Result<()> {
    let (free, total) = device.memory()?;
    if plan.arena_bytes() <= free {
        return Ok(());
    }
    let [planned, free, total] = [plan.arena_bytes(), free, total].map(|n| n as f64 / (1u64 << 30) as f64);
    Err(Error::Memory { planned, free, total, device: device.name.clone() })
}

impl CudaExecutor {
    /// Plans `outputs` of `graph`, allocates its memory and lowers its operations. `seed` is fixed from here on.
    pub fn new(
        session: &Arc<Session>,
        graph: &Graph,
        outputs: &[Var],
        params: &DeviceParams,
        precision: Precision,
        seed: u64,
    ) -> Result<CudaExecutor> {
        let device = &session.device;
        device.enter()?;
        // GPUs before Ampere have no bf16 tensor cores; they compute in f32.
        let modern = matches!(precision, Precision::Bf16 | Precision::F16x2);
        let precision = if modern && device.chip.capability.0 < 8 { Precision::F32 } else { precision };
        let mut libraries = session.lock();
        let Libraries { cudnn, kernels, .. } = &mut *libraries;
        let target = CompileTarget { precision, chip: device.chip };
        let (nodes, plan) = plan_with(cudnn, graph, outputs, target)?;
        check_memory(device, &plan)?;
        let arena = device.alloc(plan.arena_bytes())?;
        let inputs: Vec<Buffer> =
            plan.inputs().iter().map(|(_, var)| device.alloc(plan.shape(*var).numel() * 4)).collect::<Result<_>>()?;
        let constants: Vec<Buffer> = plan
            .constants()
            .iter()
            .map(|c| device.upload(&to_bytes(&c.iter().map(|&v| v as f32).collect::<Vec<_>>())))
            .collect::<Result<_>>()?;
        let step = device.alloc(8)?;
        step.fill_word(0)?;
        let mut lowering = Lowering {
            device,
            kernels,
            cudnn,
            graph,
            plan: &plan,
            nodes: &nodes,
            precision,
            arena: arena.address,
            inputs: inputs.iter().map(|b| b.address).collect(),
            constants: constants.iter().map(|b| b.address).collect(),
            params: params.addresses().into_iter().zip(params.copy_addresses()).collect(),
            step: step.address,
            seed,
            tables: Vec::new(),
            masks: Default::default(),
            commands: Vec::new(),
            later: Vec::new(),
        };
        let places = streams::lower_all(&mut lowering)?;
        let Lowering { tables, commands, .. } = lowering;
        let planned = commands.len();
        let storages = outputs.iter().map(|&v| (v, graph.storage(v))).collect();
        drop(libraries);
        Ok(CudaExecutor {
            session: session.clone(),
            plan,
            precision,
            storages,
            arena,
            inputs,
            step,
            shares: BatchShares::WHOLE,
            before: Vec::new(),
            shards: None,
            commands,
            places,
            planned,
            share_end: None,
            replays: Default::default(),
            fork: CudaEvent::new(device)?,
            _constants: constants,
            _tables: tables,
        })
    }

    /// The plan it runs; its units are bytes.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Sets an input by name.
    pub fn set(&mut self, name: &str, values: &[f32]) -> Result<()> {
        let index = self.plan.find_input(name, values.len())?;
        self.inputs[index].write(0, &to_bytes(values))
    }

    /// Adds launches that run after the plan's commands, in the same graph.
    pub(super) fn append(&mut self, launches: impl IntoIterator<Item = Launch>) {
        self.commands.extend(launches.into_iter().map(Command::Kernel));
        self.capture_anew();
    }

    /// Ends every run as a share of a batch, before what was appended.
    pub(super) fn end_by(&mut self, end: ShareEnd) {
        self.share_end = Some(end);
        self.capture_anew();
    }

    fn capture_anew(&mut self) {
        self.replays.iter_mut().for_each(|replay| replay.graph = None);
    }

    /// Copies `output` into the input `name` at the end of every run.
    pub fn carry(&mut self, output: Var, name: &str) -> Result<()> {
        let n = self.plan.shape(output).numel();
        let to = self.input_address(name, n)?;
        let (from, half) = self.output(output)?;
        let kernel = if half { KernelName::CarryBf16 } else { KernelName::CarryF32 };
        let launch = self.kernel(kernel, n.div_ceil(256), &CarryArgs { to, from, n: int(n) })?;
        self.append([launch]);
        Ok(())
    }

    /// Begins every run with a command; `shards`, if any, send its images.
    pub(super) fn begin_with(&mut self, launch: Launch, shards: Option<Shards>) {
        (self.before, self.shards) = (vec![Command::Kernel(launch)], shards);
        self.capture_anew();
    }

    /// Keeps memory that commands refer to.
    pub(super) fn hold(&mut self, buffer: Buffer) {
        self._tables.push(buffer);
    }

    /// The GPU.
    pub(super) fn device(&self) -> &Arc<CudaDevice> {
        &self.session.device
    }

    /// A launch of `blocks` blocks of 256 threads.
    pub(super) fn kernel<A: Arguments>(&self, kernel: KernelName, blocks: usize, arguments: &A) -> Result<Launch> {
        self.session.lock().kernels.launch(kernel, [blocks, 1, 1], [256, 1, 1], arguments)
    }

    /// The address of an input with `values` values.
    pub(super) fn input_address(&self, name: &str, values: usize) -> Result<Address> {
        Ok(self.inputs[self.plan.find_input(name, values)?].address)
    }

    /// From now on runs compute one of these parts of a batch.
    pub(super) fn divide(&mut self, shares: BatchShares) {
        self.shares = shares;
    }

    /// Which parts of a batch are computed here.
    pub(super) fn shares(&self) -> BatchShares {
        self.shares
    }

    /// The address of the run's numbers.
    pub(super) fn step_address(&self) -> Address {
        self.step.address
    }

    /// The address of a planned output, and whether it is bf16.
    pub(super) fn output(&self, var: Var) -> Result<(Address, bool)> {
        let precision = self.storages.iter().find(|(v, _)| *v == var).map(|(_, p)| *p);
        match precision.map(|precision| (precision, self.plan.place(var))) {
            Some((precision, Place::Arena(offset))) => {
                Ok((self.arena.address + offset as u64, self.precision.half(precision)))
            }
            _ => Err(Error::Unknown {
                kind: "output",
                name: format!("{var:?}"),
                hint: Some("only computed tensors named when the plan was made are kept".into()),
            }),
        }
    }

    /// The addresses of gradients that are planned outputs.
    pub(super) fn gradients(&self, vars: &[Var]) -> Result<Vec<GradientAt>> {
        vars.iter().map(|&var| self.output(var).map(|(address, half)| GradientAt { address, half })).collect()
    }

    /// The elements of a planned output, and the commands after which all of them are written.
    pub(super) fn extent(&self, var: Var) -> (usize, usize) {
        let root = self.plan.root(var);
        let steps = self.plan.steps().iter().zip(&self.places);
        let makers = steps.filter(|(step, _)| step.outputs.iter().any(|&made| self.plan.root(made) == root));
        let ready = makers.map(|(_, commands)| commands.ready).max().unwrap_or(self.planned);
        (self.plan.shape(var).numel(), ready.max(1))
    }

    /// Whether the second stream has begun after so many commands.
    pub(super) fn has_forked(&self, commands: usize) -> bool {
        self.commands[..commands].iter().any(|command| matches!(command, Command::Fork))
    }

    /// Enqueues one run; does not wait for it.
    ///
    /// The first run enqueues the commands one by one, which lets the libraries load what they need; the second
    /// captures them as a graph, and from then on a run is one launch. The run that completes a batch of several shares does
    /// more, so it is another graph.
    pub fn run(&mut self, draw: impl Into<Draw>) -> Result<()> {
        let Draw { step, part } = draw.into();
        self.session.device.enter()?;
        if let Some(shards) = &mut self.shards {
            shards.supply(self.shares.number(step.into(), part.into()))?;
        }
        self.step.set_word(0, step)?;
        if self.shares.parts > 1 {
            self.step.set_word(1, part)?;
        }
        let completes = self.share_end.as_ref().is_some_and(|end| end.completes(part.into()));
        let which = usize::from(completes);
        if !self.replays[which].is_warm {
            self.replays[which].is_warm = true;
            return self.enqueue_run(completes);
        }
        if self.replays[which].graph.is_none() {
            let device = self.session.device.clone();
            self.replays[which].graph = Some(device.capture(|| self.enqueue_run(completes))?);
        }
        match &self.replays[which].graph {
            Some(graph) => graph.launch(),
            None => Ok(()),
        }
    }

    /// Enqueues all commands of a run.
    fn enqueue_run(&self, completes: bool) -> Result<()> {
        let Some(end) = &self.share_end else { return self.enqueue(0..self.commands.len(), false) };
        let mut begin = 0;
        for (bucket, ready) in end.sends().filter(|_| completes) {
            self.enqueue(begin..ready, false)?;
            end.send(bucket)?;
            begin = ready;
        }
        self.enqueue(begin..self.planned, false)?;
        end.finish(completes)?;
        self.enqueue(self.planned..self.commands.len(), false)
    }

    /// Enqueues commands; one after the other on the first stream if they are to be timed `alone`.
    fn enqueue(&self, range: Range<usize>, alone: bool) -> Result<()> {
        let libraries = self.session.lock();
        let device = &self.session.device;
        let mut lane = 0;
        // Per stream: whether the next kernel depends on one kernel alone. After a fork or a join it depends on both streams,
        // at the beginning on whatever ran before.
        let mut follows = [false; 2];
        let before = if range.start == 0 && !alone { &self.before[..] } else { &[] };
        for command in before.iter().chain(&self.commands[range]) {
            let stream = [device.stream, device.side][lane];
            match command {
                Command::Fork | Command::Back(_) | Command::Join(_) if alone => {}
                Command::Kernel(launch) => launch.enqueue(device, stream, follows[lane])?,
                Command::Convolution(call) => libraries.cudnn.enqueue(call)?,
                Command::Product(gemm) => libraries.cublas[lane].enqueue(gemm)?,
                Command::Fork => {
                    self.fork.record(device.stream)?;
                    self.fork.wait(device.side)?;
                    libraries.cudnn.follow(device.side)?;
                    lane = 1;
                }
                Command::Back(event) => {
                    event.record(device.side)?;
                    libraries.cudnn.follow(device.stream)?;
                    lane = 0;
                }
                Command::Join(at) => {
                    if let Command::Back(event) = &self.commands[*at] {
                        event.wait(device.stream)?;
                    }
                }
            }
            // Returning to the first stream changes nothing there.
            if !matches!(command, Command::Back(_)) {
                follows[lane] = !matches!(command, Command::Fork | Command::Join(_));
            }
        }
        Ok(())
    }

    /// Runs every operation `times` times by itself and times each.
    pub fn run_timed(&mut self, step: u32, times: usize) -> Result<Vec<NodeTime>> {
        self.run(step)?;
        let device = self.session.device.clone();
        let mut result = Vec::new();
        // As a graph, as in a run: launched one by one, small operations would show the host's overhead.
        let time = |enqueue: &dyn Fn() -> Result<()>| -> Result<Duration> {
            let graph = device.capture(|| (0..times).try_for_each(|_| enqueue()))?;
            graph.launch()?;
            let milliseconds = device.time(|| graph.launch())?;
            Ok(Duration::from_secs_f32(milliseconds.max(0.0) * 1e-3 / times as f32))
        };
        for (planned, StepCommands { place, .. }) in self.plan.steps().iter().zip(&self.places) {
            let taken = match place.is_empty() {
                true => Duration::ZERO,
                false => time(&|| self.enqueue(place.clone(), true))?,
            };
            result.push(self.plan.timed(planned, taken));
        }
        if self.planned < self.commands.len() {
            let (scope, shape) = (String::new(), String::new());
            // Other ranks would have to time their exchange at the same time.
            let end = self.share_end.as_ref().filter(|end| !end.is_exchanged());
            let time = time(&|| {
                end.map_or(Ok(()), |end| end.finish(true))?;
                self.enqueue(self.planned..self.commands.len(), true)
            })?;
            result.push(NodeTime { operation: "update", scope, shape, flops: 0, bytes: 0, time });
        }
        Ok(result)
    }

    /// The value of a planned output.
    pub fn get(&self, var: Var) -> Result<Vec<f32>> {
        let n = self.plan.shape(var).numel();
        let (address, half) = self.output(var)?;
        let mut bytes = vec![0; n * if half { 2 } else { 4 }];
        self.arena.read((address - self.arena.address) as usize, &mut bytes)?;
        if !half {
            return Ok(from_bytes(&bytes));
        }
        Ok(bytes.as_chunks().0.iter().map(|b| f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16)).collect())
    }

    /// Waits until everything enqueued has run.
    pub fn synchronize(&self) -> Result<()> {
        self.session.device.synchronize()
    }
}
