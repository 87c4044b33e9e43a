//! What the tests of runs and checkpoints share: a small state, an empty folder, a file system that fails on demand.
#![allow(dead_code)] // Each test program uses a part.

pub mod child;
pub mod failing_fs;
pub mod power_fs;
pub mod training;

use softdiff::checkpoint::{Checkpoints, Identity, Retention, TrainingState};
use softdiff::engine::optim::AdamConfig;
use softdiff::engine::rng::Stream;
use softdiff::engine::{Graph, Init, Params};
use softdiff::run::fs::{Disk, Fs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An empty folder for one test.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Parameters of some shapes, one of them frozen; about `4 * width` values.
pub fn template(width: usize) -> Params<f32> {
    let mut g = Graph::new();
    g.param("net.0.weight", [3, width], Init::Normal { deviation: 0.3 }).unwrap();
    g.param("net.0.bias", [width], Init::Uniform { bound: 1.0 }).unwrap();
    g.frozen_param("embedding", [2, 2], Init::Normal { deviation: 16.0 }).unwrap();
    Params::initialise(&g, 1)
}

pub fn optimiser() -> AdamConfig {
    AdamConfig { ema: vec![0.9, 0.9999], warmup: 3, ..AdamConfig::default() }
}

/// A state whose every value is a function of the step.
pub fn state(width: usize, step: u64) -> TrainingState {
    let mut state = TrainingState::new(template(width), optimiser());
    let mut purpose = 0;
    let mut fill = |values: &mut [f32]| {
        purpose += 1;
        Stream { seed: 3, purpose, step: step as u32 }.fill_normal(0, values);
    };
    state.params.trainable_mut().for_each(&mut fill);
    state.adam.ema.iter_mut().flat_map(|ema| ema.trainable_mut()).for_each(&mut fill);
    state.adam.first.iter_mut().chain(&mut state.adam.second).for_each(|values| fill(values));
    state.adam.step = step;
    state.progress.step = step;
    state.progress.images_seen = 128 * step;
    state.progress.elapsed_seconds = step as f64 / 3.0;
    for i in 0..step.min(200) {
        let _ = state.progress.guard.judge(1.0 / (i + 1) as f64, 2.0f64.sqrt() * i as f64);
    }
    state.progress.meter.add(1.0 / 7.0, 1.0 / 3.0, 4, [(0.1, 0.3), (0.7, 1.0 / 3.0)]);
    state
}

pub fn keep(last: usize) -> Retention {
    Retention { last, every: None, best: None }
}

pub fn identity() -> Identity {
    Identity::of(b"recipe", b"schedule")
}

pub fn checkpoints_on(fs: Arc<dyn Fs>, folder: &Path, last: usize) -> Checkpoints {
    Checkpoints::open(fs, folder, identity(), keep(last)).unwrap()
}

pub fn checkpoints(folder: &Path, last: usize) -> Checkpoints {
    checkpoints_on(Arc::new(Disk), folder, last)
}

/// The newest whole state in `checkpoints`.
pub fn newest(checkpoints: &Checkpoints, width: usize) -> TrainingState {
    let found = checkpoints.newest_valid().unwrap();
    found.newest.unwrap().restore(&template(width), &optimiser()).unwrap()
}
