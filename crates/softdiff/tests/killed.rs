//! Processes that are killed, asked to stop, or denied space while they save.
#![cfg(unix)]

mod run_support;

use run_support::child::{folder_of_child, signal, spawn};
use run_support::{checkpoints, folder, newest, state};
use softdiff::engine::rng::philox;
use softdiff::hint::Hint;
use softdiff::run::fs::{Disk, Fs};
use softdiff::run::{RunFolder, StopRequest, Stopped};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Some 400 KB per checkpoint: long enough to be hit while writing.
const WIDTH: usize = 5_000;
/// Times to kill; `SOFTDIFF_KILLS` sets another number.
const KILLS: u32 = 200;
/// No child outlives a failed test for longer.
const LONGEST_LIFE: Duration = Duration::from_secs(20);

#[test]
#[ignore = "a child of other tests"]
fn child_that_saves_forever() {
    let Some(root) = folder_of_child() else { return };
    let run = RunFolder::new(&root);
    let lock = run.lock().unwrap();
    let stop = StopRequest::install(|_| 1).unwrap();
    let _hold = stop.hold();
    let all = checkpoints(&run.checkpoints(), 2);
    let found = all.resume(&lock).unwrap();
    let first = found.newest.map_or(1, |stored| stored.manifest().step + 1);
    println!("ready {first}, removed {}, left {}", found.removed.len(), unfinished(&root));
    let born = Instant::now();
    for step in (first..).take_while(|_| born.elapsed() < LONGEST_LIFE) {
        match all.save(&state(WIDTH, step), &BTreeMap::new()) {
            Ok(saved) if saved.warnings.is_empty() => println!("saved {step}"),
            Ok(saved) => println!("warned {:?}", saved.warnings),
            Err(error) => {
                println!("failed {error}: {}", error.hint().unwrap_or_default());
                std::process::exit(1);
            }
        }
        if let Some(signal) = stop.signal() {
            drop(lock);
            std::process::exit(signal.exit_code().into());
        }
    }
}

#[test]
#[ignore = "a child of other tests"]
fn child_that_never_ends_a_step() {
    let Some(_) = folder_of_child() else { return };
    let stop = StopRequest::install(last_words).unwrap();
    let _hold = stop.hold();
    println!("ready");
    std::thread::sleep(LONGEST_LIFE);
}

fn last_words(reason: Box<dyn std::error::Error + Send + Sync>) -> u8 {
    reason.downcast_ref::<Stopped>().map_or(1, |stopped| stopped.signal.exit_code())
}

/// The last step that the child said was saved.
fn acknowledged(lines: impl Iterator<Item = String>) -> Option<u64> {
    lines.filter_map(|line| line.strip_prefix("saved ").and_then(|step| step.parse().ok())).last()
}

fn unfinished(root: &Path) -> usize {
    let names = Disk.list(&root.join("checkpoints")).unwrap();
    names.iter().filter(|name| name.contains(".tmp-") || name.starts_with("trash-")).count()
}

fn assert_resumable(root: &Path, at_least: u64) -> u64 {
    let all = checkpoints(&root.join("checkpoints"), 2);
    let found = all.newest_valid().unwrap();
    assert!(found.skipped.is_empty(), "torn: {:?}", found.skipped);
    let read = newest(&all, WIDTH);
    assert!(read.progress.step >= at_least, "{} was saved, {} found", at_least, read.progress.step);
    assert!(read == state(WIDTH, read.progress.step));
    read.progress.step
}

#[test]
fn a_run_killed_at_any_moment_of_saving_is_resumable_and_loses_no_saved_step() {
    let root = folder("killed_kill");
    let kills = std::env::var("SOFTDIFF_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(KILLS);
    let (mut saved, mut stale, mut interrupted) = (0, 0, 0);
    for trial in 0..kills {
        let (mut child, mut lines) = spawn("child_that_saves_forever", &root, ":");
        let ready = lines.find(|line| line.starts_with("ready ")).unwrap();
        assert_eq!(ready, format!("ready {}, removed {stale}, left 0", saved + 1), "it resumes where the parent says");
        let micros = philox([trial, 0, 0, 0], [5, 0])[0] % 40_000;
        std::thread::sleep(Duration::from_micros(micros.into()));
        child.kill().unwrap();
        child.wait().unwrap();
        let at_least = acknowledged(lines).unwrap_or(saved);
        stale = unfinished(&root);
        assert!(stale <= 1, "{stale} unfinished folders");
        interrupted += stale;
        if at_least > 0 || !checkpoints(&root.join("checkpoints"), 2).steps().unwrap().is_empty() {
            saved = assert_resumable(&root, at_least);
        }
    }
    println!("{interrupted} of {kills} kills hit a save, {saved} checkpoints were saved");
    assert!(interrupted > kills as usize / 4, "only {interrupted} of {kills} kills hit a save: vary the delay");
}

#[test]
fn sigterm_and_sighup_save_and_exit_75_and_ctrl_c_130() {
    for (name, code) in [("TERM", 75), ("HUP", 75), ("INT", 130)] {
        let root = folder("killed_asked");
        let mut saved = 0;
        for trial in 0..5 {
            let (mut child, mut lines) = spawn("child_that_saves_forever", &root, ":");
            lines.find(|line| line.starts_with("ready ")).unwrap();
            std::thread::sleep(Duration::from_micros((philox([trial, 1, 0, 0], [5, 0])[0] % 40_000).into()));
            let asked = Instant::now();
            signal(&child, name);
            let last = acknowledged(lines).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(code));
            assert!(asked.elapsed() < Duration::from_secs(2));
            assert!(last > saved);
            saved = assert_resumable(&root, last);
            assert_eq!((saved, unfinished(&root)), (last, 0), "it ends with a checkpoint of its last step");
        }
    }
}

#[test]
fn a_second_ctrl_c_ends_the_process_at_once() {
    for first in ["INT", "TERM"] {
        let (mut child, mut lines) = spawn("child_that_never_ends_a_step", &folder("killed_twice"), ":");
        lines.find(|line| line.ends_with("ready")).unwrap();
        signal(&child, first);
        std::thread::sleep(Duration::from_millis(50));
        assert!(child.try_wait().unwrap().is_none(), "the first is a request");
        let asked = Instant::now();
        signal(&child, "INT");
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert!(asked.elapsed() < Duration::from_secs(1));
    }
}

#[test]
fn a_limit_on_file_sizes_is_an_error_with_a_hint_and_keeps_the_previous_checkpoint() {
    let root = folder("killed_limit");
    let run = RunFolder::new(&root);
    drop(run.lock().unwrap());
    let all = checkpoints(&run.checkpoints(), 2);
    all.save(&state(WIDTH, 1), &BTreeMap::new()).unwrap();
    // 16 KiB or 32 KiB, as the shell counts blocks: less than a file of weights.
    let (mut child, lines) = spawn("child_that_saves_forever", &root, "ulimit -f 32");
    let said = lines.last().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains("params.safetensors") && said.contains("ulimit -f"), "{said}");
    assert_eq!((assert_resumable(&root, 1), unfinished(&root)), (1, 0));
    assert_eq!(std::fs::read_to_string(run.checkpoints().join("latest")).unwrap(), "step-000000001\n");
}
