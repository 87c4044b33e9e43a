//! `softdiff train` and `doctor --ranks` under the real `mpirun` of Open MPI and MPICH, where they are installed.
#![cfg(target_os = "linux")]

mod support;

use std::process::{Child, Output};
use std::time::Duration;
use support::mpirun::{ended, launchers, lose_rank_1, mpirun, process_of, signal};
use support::{Scratch, bytes, done, text, tiny};

fn succeed(launcher: &str, ranks: usize, arguments: &[&str]) -> Output {
    support::mpirun::succeed(mpirun(launcher, ranks, arguments))
}

/// What a run with a batch of eight in eight shares ends with.
fn weights(run: &str, step: u64) -> [Vec<u8>; 3] {
    ["params", "adam", "ema-0.9"].map(|name| bytes(format!("{run}/checkpoints/step-{step:09}/{name}.safetensors")))
}

#[test]
fn the_weights_of_several_processes_are_those_of_one_and_another_number_goes_on() {
    let scratch = Scratch::new("mpirun");
    let (alone, sets) = (scratch.path("alone"), ["--set=train.batch=8"]);
    done(&tiny(&alone, &["--set=train.batch=8", "--set=train.accumulate=8"]));
    for launcher in launchers() {
        let run = scratch.path(launcher);
        succeed(launcher, 2, &tiny(&run, &[sets[0], "--set=train.steps=4"]));
        // Alone, then on four ranks which read the recipe of the run.
        done(&tiny(&run, &[sets[0], "--set=train.steps=6"]));
        succeed(launcher, 4, &["train", "--out", &run, "--device=cpu", "--set=train.steps=8"]);
        assert!(weights(&run, 8) == weights(&alone, 8), "{launcher}");
        let straight = scratch.path(&format!("{launcher}-straight"));
        let output = succeed(launcher, 2, &tiny(&straight, &sets));
        assert!(weights(&straight, 8) == weights(&alone, 8), "{launcher}");
        let events = |run: &str| text(&bytes(format!("{run}/events.jsonl")));
        assert_eq!(events(&straight), events(&alone));
        let said = text(&output.stderr);
        assert_eq!(said.matches("8 steps, trained for").count(), 1, "only rank 0 speaks: {said}");
        let fast = scratch.path(&format!("{launcher}-fast"));
        succeed(launcher, 2, &tiny(&fast, &["--set=train.batch=8", "--reduce=fast"]));
    }
}

/// A run on two ranks that does not end by itself.
fn endless(launcher: &str, run: &str) -> Child {
    let sets = ["--set=train.batch=8", "--set=train.steps=1000000", "--set=preview=", "--set=checkpoint.every=4"];
    mpirun(launcher, 2, &tiny(run, &sets)).spawn().unwrap()
}

/// Whether a run has a checkpoint.
fn has_checkpoint(run: &str) -> bool {
    std::fs::read_dir(format!("{run}/checkpoints"))
        .is_ok_and(|entries| entries.flatten().any(|entry| entry.file_name() == "latest"))
}

#[test]
fn a_signal_to_any_rank_stops_all_with_a_checkpoint() {
    let scratch = Scratch::new("mpirun-stop");
    for launcher in launchers() {
        let run = scratch.path(launcher);
        let child = endless(launcher, &run);
        signal("-TERM", process_of(1, &run, &|| has_checkpoint(&run)));
        let output = ended(child, Duration::from_secs(30));
        let said = text(&output.stderr) + &text(&output.stdout);
        assert_eq!(output.status.code(), Some(75), "{said}");
        assert_eq!(said.matches("stopped by SIGTERM at step").count(), 1, "{said}");
        succeed(launcher, 2, &["train", "--out", &run, "--device=cpu", "--set=train.steps=1"]);
    }
}

#[test]
fn when_a_rank_dies_or_hangs_the_others_end_within_15_seconds_and_name_it() {
    let scratch = Scratch::new("mpirun-lost");
    for launcher in launchers() {
        let run = scratch.path(launcher);
        let said = lose_rank_1(launcher, endless(launcher, &run), &run, &|| has_checkpoint(&run));
        assert!(said.contains("training continues from the last checkpoint"), "{said}");
        done(&["train", "--out", &run, "--device=cpu", "--set=train.steps=1"]);
    }
}

#[test]
fn doctor_says_who_the_ranks_are_and_how_fast_they_talk() {
    for launcher in launchers() {
        let output = succeed(launcher, 2, &["doctor", "--ranks", "--json"]);
        let facts: serde_json::Value = serde_json::from_str(text(&output.stdout).trim()).unwrap();
        let ranks = &facts["ranks"];
        assert_eq!(ranks["hosts"].as_array().unwrap().len(), 2, "{facts}");
        assert!(ranks["library"].as_str().unwrap().contains("MPI"), "{facts}");
        assert!(ranks["sums"].as_array().unwrap().iter().all(|sum| sum["seconds"].as_f64().unwrap() > 0.0), "{facts}");
    }
}

#[test]
fn processes_without_mpi_and_gpus_are_refused_with_what_to_do() {
    let torchrun = || {
        let mut command = support::command(&["train", "quickstart", "--out", "never", "--device=cpu"]);
        command.envs([("RANK", "1"), ("WORLD_SIZE", "2")]).output().unwrap()
    };
    let output = torchrun();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("torchrun started 2 processes") && said.contains("mpirun -n 2 softdiff ..."), "{said}");
    let output = support::softdiff(&["doctor", "--ranks"]);
    assert!(text(&output.stderr).contains("hint: mpirun -n 2 softdiff doctor --ranks"), "{}", text(&output.stderr));
}
