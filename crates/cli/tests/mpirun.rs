//! `softdiff train` and `doctor --ranks` under the real `mpirun` of Open MPI and MPICH, where they are installed.
#![cfg(target_os = "linux")]

mod support;

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{Scratch, bytes, done, text, tiny};

/// The launchers that are here.
fn launchers() -> Vec<&'static str> {
    let is_here = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let found: Vec<_> = ["mpirun.openmpi", "mpirun.mpich"].into_iter().filter(is_here).collect();
    if found.is_empty() {
        println!("skipped: neither mpirun.openmpi nor mpirun.mpich is installed");
    }
    found
}

/// A command in `ranks` processes on this machine.
fn mpirun(launcher: &str, ranks: usize, arguments: &[&str]) -> Command {
    let mut command = Command::new(launcher);
    if launcher == "mpirun.openmpi" {
        // Messages between processes of one machine need no network but this one.
        command.args(["--oversubscribe", "--mca", "btl", "self,vader,tcp", "--mca", "btl_tcp_if_include", "lo"]);
        command.args(["--mca", "oob_tcp_if_include", "lo", "--mca", "odls_base_sigkill_timeout", "10"]);
        command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    }
    command.args(["-n", &ranks.to_string(), env!("CARGO_BIN_EXE_softdiff")]).args(arguments);
    command.env("RAYON_NUM_THREADS", "1").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits for a process, but not for ever.
fn ended(mut child: Child, within: Duration) -> Output {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > within {
            child.kill().unwrap();
            panic!("not ended within {within:?}: {}", text(&child.wait_with_output().unwrap().stderr));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

fn succeed(launcher: &str, ranks: usize, arguments: &[&str]) -> Output {
    let output = ended(mpirun(launcher, ranks, arguments).spawn().unwrap(), Duration::from_secs(120));
    assert!(output.status.success(), "{launcher} {arguments:?}: {}", text(&output.stderr));
    output
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

/// The process of a rank that works on `run`, once it has a checkpoint.
fn process_of(rank: usize, run: &str) -> u32 {
    let begun = Instant::now();
    loop {
        let has_checkpoint = std::fs::read_dir(format!("{run}/checkpoints"))
            .is_ok_and(|entries| entries.flatten().any(|entry| entry.file_name() == "latest"));
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let found = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).find(|number| {
            let read = |file: &str| std::fs::read(format!("/proc/{number}/{file}")).unwrap_or_default();
            let has = |bytes: Vec<u8>, word: String| bytes.split(|&byte| byte == 0).any(|part| part == word.as_bytes());
            let is_softdiff = read("comm").starts_with(b"softdiff");
            let names = ["OMPI_COMM_WORLD_RANK", "PMI_RANK"];
            let is_rank = names.iter().any(|name| has(read("environ"), format!("{name}={rank}")));
            is_softdiff && is_rank && has(read("cmdline"), run.to_owned())
        });
        match found {
            Some(number) if has_checkpoint => return number,
            _ => assert!(begun.elapsed() < Duration::from_secs(60), "rank {rank} did not begin"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

/// A run that does not end by itself, and the process of one of its two ranks.
fn endless(launcher: &str, run: &str, rank: usize) -> (Child, u32) {
    let sets = ["--set=train.batch=8", "--set=train.steps=1000000", "--set=preview=", "--set=checkpoint.every=4"];
    let child = mpirun(launcher, 2, &tiny(run, &sets)).spawn().unwrap();
    let process = process_of(rank, run);
    (child, process)
}

#[test]
fn a_signal_to_any_rank_stops_all_with_a_checkpoint() {
    let scratch = Scratch::new("mpirun-stop");
    for launcher in launchers() {
        let run = scratch.path(launcher);
        let (child, process) = endless(launcher, &run, 1);
        signal("-TERM", process);
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
    for (launcher, name, words) in [
        ("mpirun.openmpi", "-KILL", "rank 1 on"),
        // Its launcher ends the others itself where one dies.
        ("mpirun.mpich", "-STOP", "has not answered for 10 s"),
    ] {
        if !launchers().contains(&launcher) {
            continue;
        }
        let run = scratch.path(launcher);
        let (child, process) = endless(launcher, &run, 1);
        signal(name, process);
        let begun = Instant::now();
        if name == "-STOP" {
            // A launcher that waits for the stopped one must see it go on; another has killed it by then.
            let other = process_of(0, &run);
            while std::path::Path::new(&format!("/proc/{other}")).exists() && begun.elapsed() < Duration::from_secs(15)
            {
                std::thread::sleep(Duration::from_millis(50));
            }
            let state = std::fs::read_to_string(format!("/proc/{other}/stat")).unwrap_or_default();
            assert!(state.is_empty() || state.contains(") Z"), "rank 0 went on: {state}");
            let _ = Command::new("kill").args(["-CONT", &process.to_string()]).status();
        }
        let output = ended(child, Duration::from_secs(20));
        let said = text(&output.stderr) + &text(&output.stdout);
        assert!(said.contains(words) && said.contains("training continues from the last checkpoint"), "{said}");
        assert!(!output.status.success());
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
    assert!(said.contains("torchrun started 2 processes") && said.contains("mpirun -n 2 softdiff train"), "{said}");
    let output = support::softdiff(&["doctor", "--ranks"]);
    assert!(text(&output.stderr).contains("hint: mpirun -n 2 softdiff doctor --ranks"), "{}", text(&output.stderr));
}
