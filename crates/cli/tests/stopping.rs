//! `softdiff train` as a process: killed, asked to stop, started twice; run again it ends as if nothing had been.
#![cfg(unix)]

mod support;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Scratch, bytes, command, done, softdiff, text, tiny};

/// Long enough to be hit on the way, short enough to be run often.
const LONG: [&str; 3] = ["--set=train.steps=40", "--set=checkpoint.every=6", "--set=preview.every=20"];
/// No process is waited for longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// What decides whether two runs ended alike.
const FILES: [&str; 5] =
    ["params.safetensors", "ema-0.9.safetensors", "adam.safetensors", "manifest.json", "state.json"];

fn start(run: &str) -> Child {
    command(&tiny(run, &LONG)).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// Waits until the run's events are past a step, or it ended.
fn wait_for_step(child: &mut Child, run: &str, step: u64) {
    let begun = Instant::now();
    let passed = |line: &str| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        event["step"].as_u64().is_some_and(|at| at >= step)
    };
    loop {
        let events = std::fs::read_to_string(format!("{run}/events.jsonl")).unwrap_or_default();
        if events.lines().any(passed) || child.try_wait().unwrap().is_some() {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "step {step} never came");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Seconds trained are the one thing that differs between two runs.
fn without_seconds(name: &str, content: Vec<u8>) -> Vec<u8> {
    if !name.ends_with(".json") {
        return content;
    }
    let mut value: serde_json::Value = serde_json::from_slice(&content).unwrap();
    let fields = value.as_object_mut().unwrap();
    // The hashes of the other files are compared with the files themselves.
    ["elapsed_seconds", "seal", "files"].iter().for_each(|field| drop(fields.remove(*field)));
    serde_json::to_vec(&value).unwrap()
}

fn assert_alike(run: &str, straight: &str, after: &str) {
    for name in FILES {
        let read = |run: &str| without_seconds(name, bytes(format!("{run}/checkpoints/step-000000040/{name}")));
        assert!(read(run) == read(straight), "{name} differs after {after}");
    }
    let events = |run: &str| bytes(format!("{run}/events.jsonl"));
    assert!(events(run) == events(straight), "events.jsonl differs after {after}");
}

#[test]
fn a_run_killed_at_several_steps_ends_byte_by_byte_as_an_uninterrupted_one() {
    let scratch = Scratch::new("killed");
    let (straight, killed) = (scratch.path("straight"), scratch.path("killed"));
    done(&tiny(&straight, &LONG));
    for step in [0, 2, 8, 14, 20, 30] {
        let mut child = start(&killed);
        wait_for_step(&mut child, &killed, step);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    done(&tiny(&killed, &LONG));
    assert_alike(&killed, &straight, "SIGKILL");
}

#[test]
fn sigterm_exits_with_75_and_ctrl_c_with_130_each_with_a_checkpoint_to_go_on_from() {
    let scratch = Scratch::new("asked");
    let (straight, stopped) = (scratch.path("straight"), scratch.path("stopped"));
    done(&tiny(&straight, &LONG));
    for (name, code, step) in [("-TERM", 75, 4), ("-INT", 130, 16)] {
        let mut child = start(&stopped);
        wait_for_step(&mut child, &stopped, step);
        signal(&child, name);
        let begun = Instant::now();
        let output = child.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert!(said.contains("stopped by") && said.contains("is saved"), "{said}");
        assert!(said.contains("hint: run the same command again to continue"), "{said}");
    }
    done(&["train", "--out", &stopped, "--device", "cpu"]);
    assert_alike(&stopped, &straight, "signals");
}

#[test]
fn a_second_process_on_the_same_run_is_refused_within_a_second() {
    let scratch = Scratch::new("twice");
    let run = scratch.path("run");
    let mut child = start(&run);
    wait_for_step(&mut child, &run, 2);
    let begun = Instant::now();
    let second = softdiff(&tiny(&run, &LONG));
    let (took, said) = (begun.elapsed(), text(&second.stderr));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("is being written by") && said.contains("hint: wait until it is done"), "{said}");
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[test]
fn a_run_begins_with_the_weights_of_another() {
    let scratch = Scratch::new("from");
    let (first, second) = (scratch.path("first"), scratch.path("second"));
    done(&tiny(&first, &[]));
    // A rate too small to change any weight.
    let from = format!("--set=train.from={first}");
    done(&tiny(&second, &[&from, "--set=train.rate=1e-30"]));
    let images = |run: &str, weights: &str| {
        let out = format!("{run}.png");
        done(&["sample", run, "--weights", weights, "--steps", "3", "--seeds", "0..4", "--out", &out]);
        bytes(out)
    };
    assert!(images(&first, "ema-0.9") == images(&second, "raw"), "the average of the first is where the second began");
    assert!(images(&first, "raw") != images(&second, "raw"));

    let other = scratch.path("other");
    let output = softdiff(&tiny(&other, &[&from, "--set=network.channels=16"]));
    let error = text(&output.stderr);
    assert!(!output.status.success() && error.contains("train.from: the weights of"), "{error}");
}

#[test]
fn after_a_divergence_no_checkpoint_of_ruined_weights_is_called_good() {
    let scratch = Scratch::new("diverged");
    let run = scratch.path("run");
    let ruinous = ["--set=train.rate=1e9", "--set=train.warmup=0", "--set=checkpoint.every=1", "--set=train.steps=40"];
    let failed = softdiff(&tiny(&run, &ruinous));
    let said = text(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(said.contains("the last good checkpoint is none") && said.contains("train.rate"), "{said}");
    // The first update is finite and ruinous; those that follow are skipped, and nothing is saved meanwhile.
    let saved = std::fs::read_dir(format!("{run}/checkpoints")).unwrap();
    let saved = saved.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("step-"));
    assert!(saved.count() <= 2);
}
