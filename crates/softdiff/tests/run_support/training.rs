//! A training loop in small, with the order of things that makes resuming exact.

use super::{identity, keep};
use softdiff::checkpoint::{CheckpointWriter, Checkpoints, Save, TrainingState, folder_name};
use softdiff::engine::cpu::CpuExecutor;
use softdiff::engine::optim::{AdamConfig, global_norm};
use softdiff::engine::{Graph, Init, Params, Plan, Var};
use softdiff::run::{Event, EventKind, RunFolder, Verdict};
use std::collections::BTreeMap;
use std::path::Path;

/// Steps between step events; between scheduled checkpoints.
const REPORT: u64 = 5;
const INTERVAL: u64 = 10;
/// Steps whose batch is poisoned.
const POISONED: std::ops::RangeInclusive<u64> = 12..=14;
const BATCH: usize = 4;

/// How a session ends before training does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    /// A signal after this step: saves, says so.
    Asked(u64),
    /// Power off after this step: saves nothing.
    Killed(u64),
    /// It does not.
    Never,
}

struct Step {
    run: CpuExecutor<f32>,
    losses: Var,
    loss: Var,
    gradients: Vec<Var>,
}

fn network() -> (Graph, Step) {
    let mut g = Graph::new();
    let x = g.input("x", [BATCH, 6]).unwrap();
    let w0 = g.param("0.weight", [7, 6], Init::Normal { deviation: 0.4 }).unwrap();
    let h = g.linear(x, w0, None).unwrap();
    let h = g.silu(h).unwrap();
    let h = g.dropout(h, 0.2, 1).unwrap();
    let w1 = g.param("1.weight", [6, 7], Init::Normal { deviation: 0.4 }).unwrap();
    let y = g.linear(h, w1, None).unwrap();
    let noise = g.random_normal([BATCH, 6], 2).unwrap();
    let d = g.sub(y, noise).unwrap();
    let squares = g.square(d).unwrap();
    let sums = g.sum_axes(squares, 1..2).unwrap();
    let losses = g.reshape(sums, [BATCH]).unwrap();
    let loss = g.mean(losses).unwrap();
    let gradients = g.parameter_gradients(loss).unwrap();
    let mut outputs = gradients.clone();
    outputs.extend([losses, loss]);
    let run = CpuExecutor::new(Plan::new(&g, &outputs).unwrap());
    (g, Step { run, losses, loss, gradients })
}

pub fn config() -> AdamConfig {
    AdamConfig { rate: 0.01, warmup: 8, ema: vec![0.5, 0.999], ..AdamConfig::default() }
}

/// Trains the run in `root` up to step `steps`, continuing what is there; gives the state it ends with.
pub fn train(root: &Path, steps: u64, end: End) -> TrainingState {
    let run = RunFolder::new(root);
    let lock = run.lock().unwrap();
    let all = Checkpoints::open(run.fs(), &run.checkpoints(), identity(), keep(2)).unwrap();
    let found = all.resume(&lock).unwrap();
    let (graph, mut step) = network();
    let fresh = || TrainingState::new(Params::initialise(&graph, 1), config());
    let restored = found.newest.map(|stored| stored.restore(&Params::zeros(&graph), &config()).unwrap());
    let (mut events, _) = run.resume_events(&lock, restored.as_ref().map(|state| state.progress.step)).unwrap();
    let mut writer = CheckpointWriter::new(all).unwrap();
    let mut state = restored.unwrap_or_else(|| {
        let kind = EventKind::Warning { message: "begun".into() };
        events.write(&Event { step: 0, kind }).unwrap();
        fresh()
    });
    while state.progress.step < steps {
        for kind in one_step(&mut step, &mut state) {
            events.write(&Event { step: state.progress.step, kind }).unwrap();
        }
        let now = state.progress.step;
        let name = folder_name(now);
        let due = now.is_multiple_of(INTERVAL);
        if due {
            // The event precedes the checkpoint: whoever resumes from the checkpoint must find it.
            events.write(&Event { step: now, kind: EventKind::Checkpoint { name: name.clone() } }).unwrap();
        }
        if due || end == End::Asked(now) {
            events.sync().unwrap();
            writer.save(Save { state: state.clone(), scores: BTreeMap::new() }).unwrap();
        }
        if end == End::Asked(now) {
            writer.wait().unwrap();
            let kind = EventKind::Stopped { reason: "SIGTERM".into(), checkpoint: Some(name) };
            events.write(&Event { step: now, kind }).unwrap();
        }
        if end == End::Asked(now) || end == End::Killed(now) {
            return state;
        }
    }
    writer.wait().unwrap();
    state
}

fn one_step(step: &mut Step, state: &mut TrainingState) -> Vec<EventKind> {
    let progress = &mut state.progress;
    let number = progress.step;
    let value = |i: usize| if POISONED.contains(&number) { f32::NAN } else { (number as f32 + i as f32).sin() };
    let x: Vec<f32> = (0..BATCH * 6).map(value).collect();
    // The executor refuses inputs that are not finite, as the guard would: both count as a bad loss.
    let loss = match step.run.set("x", &x) {
        Ok(()) => {
            step.run.run(&state.params, 9, number as u32).unwrap();
            f64::from(step.run.scalar(step.loss).unwrap())
        }
        Err(_) => f64::NAN,
    };
    let gradients: Vec<&[f32]> = step.gradients.iter().map(|&g| step.run.get(g).unwrap()).collect();
    let norm = if loss.is_nan() { f64::NAN } else { global_norm(&gradients) };
    progress.step += 1;
    progress.images_seen += BATCH as u64;
    progress.elapsed_seconds += 0.1;
    let mut events = Vec::new();
    match progress.guard.judge(loss, norm) {
        Verdict::Apply | Verdict::Spike(_) => {
            state.adam.update(&mut state.params, &gradients).unwrap();
            let times = (0..BATCH).map(|i| (i as f32 + 0.5) / BATCH as f32);
            let losses = step.run.get(step.losses).unwrap().iter().copied();
            progress.meter.add(loss, norm, 2, times.zip(losses));
        }
        Verdict::Skip(quantity) | Verdict::Stop(quantity) => {
            events.push(EventKind::Warning { message: format!("the {quantity} is not finite; update skipped") });
        }
    }
    if progress.step.is_multiple_of(REPORT) {
        events.extend(progress.meter.report(progress.images_seen, state.adam.config.rate_at(state.adam.step)));
    }
    events
}
