//! What tests of whole commands share: a place of their own, the program, and a run that takes a second.
#![allow(dead_code)] // Each test file uses a part of it.

pub mod mpirun;

use std::path::Path;
use std::process::{Command, Output};

/// A folder that is removed when the test is done.
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        Scratch(tempfile::TempDir::with_prefix(format!("softdiff-{name}-")).unwrap())
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }
}

/// The program, not yet started, on the processor.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_softdiff"));
    command.args(arguments);
    command
}

pub fn softdiff(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Runs a command that must succeed; gives what it printed.
pub fn done(arguments: &[&str]) -> String {
    let output = softdiff(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What makes the quickstart's recipe a matter of a second.
pub const TINY: [&str; 22] = [
    "--set=train.ema=[0.9]",
    "--device=cpu",
    "--set=data.limit=64",
    "--set=data.size=16",
    "--set=schedule.images=32",
    "--set=schedule.candidates=24",
    "--set=schedule.knots=8",
    "--set=path.corruption.largest=6",
    "--set=prior.modes=4",
    "--set=prior.components=1",
    "--set=network.channels=8",
    "--set=network.multipliers=[1, 2]",
    "--set=train.batch=4",
    "--set=train.steps=8",
    "--set=train.warmup=2",
    "--set=train.log_every=2",
    "--set=checkpoint.every=4",
    "--set=preview.every=4",
    "--set=preview.images=2",
    "--set=preview.steps=2",
    "--set=sample.steps=4",
    "--set=sample.sampler=heun",
];

/// The arguments that train a tiny run in `out`.
pub fn tiny<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["train", "quickstart", "--out", out], &TINY[..], more].concat()
}

/// A trained tiny run.
pub fn tiny_run(scratch: &Scratch) -> String {
    let run = scratch.path("run");
    done(&tiny(&run, &[]));
    run
}

/// The bytes of a file.
pub fn bytes(path: impl AsRef<Path>) -> Vec<u8> {
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()))
}

/// A denoiser of grey images of 16x16, trained for seconds, which restores photographs of any size.
pub fn photograph_model(scratch: &Scratch) -> String {
    let run = scratch.path("model");
    let sets = [
        "data.source=embedded:fashion-mnist",
        "data.limit=64",
        "data.size=16",
        "path.largest=1",
        "network.preset=small",
        "network.channels=8",
        "network.multipliers=[1, 2]",
        "network.attention=[]",
        "network.middle_attention=false",
        "train.precision=f32",
        "train.warmup=2",
        "train.batch=8",
        "train.steps=20",
        "train.ema=[0.9]",
        "sample.weights=ema-0.9",
        "sample.sampler=heun",
        "preview.every=false",
        "checkpoint.keep_best=0",
    ];
    let sets: Vec<String> = sets.iter().map(|set| format!("--set={set}")).collect();
    let arguments: Vec<&str> =
        ["train", "ve", "--device=cpu", "--out", &run].into_iter().chain(sets.iter().map(|s| &**s)).collect();
    done(&arguments);
    run
}

/// A grey photograph with a bright square.
pub fn photograph(path: &str, width: usize, height: usize) {
    let inside =
        |i: usize| (height / 4..height * 3 / 4).contains(&(i / width)) && (width / 4..width / 2).contains(&(i % width));
    let pixels: Vec<u8> = (0..width * height).map(|i| if inside(i) { 220 } else { 40 }).collect();
    std::fs::write(path, softdiff::image::png::encode(width, height, 1, &pixels)).unwrap();
}
