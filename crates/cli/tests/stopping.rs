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
fn sigterm_and_sighup_exit_with_75_and_ctrl_c_with_130_each_with_a_checkpoint_to_go_on_from() {
    let scratch = Scratch::new("asked");
    let (straight, stopped) = (scratch.path("straight"), scratch.path("stopped"));
    done(&tiny(&straight, &LONG));
    for (name, code, step) in [("-TERM", 75, 4), ("-INT", 130, 16), ("-HUP", 75, 26)] {
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

/// Sends a signal to a run at work on what follows a step, and checks that the step is saved.
fn stop_after_step(run: &str, settings: &[&str], step: u64, name: &str) {
    let mut child = command(&tiny(run, settings)).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_step(&mut child, run, step);
    let (status, said) = end(child, name);
    assert_eq!(status, Some(75), "{said}");
    assert!(said.contains(&format!("at step {step}; step-{step:09} is saved")), "{said}");
}

/// Sends a signal, and gives the exit code and what was said.
fn end(child: Child, name: &str) -> (Option<i32>, String) {
    signal(&child, name);
    let begun = Instant::now();
    let output = child.wait_with_output().unwrap();
    // Two seconds are promised; the machine may be busy.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    (output.status.code(), text(&output.stderr))
}

#[test]
fn a_signal_during_a_preview_saves_the_step_and_the_preview_is_made_when_the_run_goes_on() {
    let scratch = Scratch::new("preview");
    let (straight, stopped) = (scratch.path("straight"), scratch.path("stopped"));
    let settings = [&LONG[..], &["--set=preview.steps=100", "--set=preview.images=8"]].concat();
    done(&tiny(&straight, &settings));
    let previews = |run: &str| [20, 40].map(|step| format!("{run}/samples/preview-{step:09}.png"));
    // The second is after the last step.
    stop_after_step(&stopped, &settings, 20, "-TERM");
    assert!(!std::path::Path::new(&previews(&stopped)[0]).exists(), "the preview was abandoned");
    stop_after_step(&stopped, &settings, 40, "-HUP");
    done(&tiny(&stopped, &settings));
    assert_alike(&stopped, &straight, "signals during previews");
    assert!(previews(&stopped).map(bytes) == previews(&straight).map(bytes), "the previews differ");
}

#[test]
fn a_signal_during_an_evaluation_saves_the_step_and_it_is_scored_when_the_run_goes_on() {
    let scratch = Scratch::new("evaluation");
    let (straight, stopped) = (scratch.path("straight"), scratch.path("stopped"));
    let settings = [
        "--set=train.steps=40",
        "--set=checkpoint.every=20",
        "--set=preview.every=20",
        "--set=checkpoint.keep_last=1",
        "--set=checkpoint.keep_best=1",
        "--set=checkpoint.metric=sliced-wasserstein",
        "--set=checkpoint.images=16",
        "--set=sample.steps=30",
    ];
    done(&tiny(&straight, &settings));
    stop_after_step(&stopped, &settings, 20, "-HUP");
    stop_after_step(&stopped, &settings, 40, "-TERM");
    done(&tiny(&stopped, &settings));
    assert_alike(&stopped, &straight, "signals during evaluations");
    let kept = |run: &str| {
        let names = std::fs::read_dir(format!("{run}/checkpoints")).unwrap().map(|entry| entry.unwrap().file_name());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(kept(&stopped), kept(&straight));
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
