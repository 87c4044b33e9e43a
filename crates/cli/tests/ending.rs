//! Commands that have nothing to save: a signal ends them at once, and a limit on file sizes is an error; neither leaves anything
//! half-written.
#![cfg(unix)]

mod support;

use softdiff::image::png;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{Scratch, command, done, text, tiny, tiny_run};

const CHECKPOINT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../softdiff/tests/golden/ncsnpp/tiny.pth");

/// Two seconds are promised; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(10);

fn start(arguments: &[&str]) -> Child {
    command(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until the process handles signals.
fn wait_for_handlers(child: &Child) {
    let caught = |status: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> 14 & 1 == 1)
    };
    let begun = Instant::now();
    while !std::fs::read_to_string(format!("/proc/{}/status", child.id())).is_ok_and(|status| caught(&status)) {
        assert!(begun.elapsed() < PATIENCE, "it never handled SIGTERM");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn end(child: Child, name: &str) -> (Option<i32>, String) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
    let begun = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    (output.status.code(), text(&output.stderr))
}

/// Every file below a folder.
fn files(folder: &str) -> Vec<String> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.to_str().unwrap().to_owned();
        if path.is_dir() { found.extend(files(&name)) } else { found.push(name) }
    }
    found
}

/// An image of the run's own.
fn image_of(scratch: &Scratch, run: &str) -> String {
    let folder = scratch.path("images");
    done(&["sample", run, "--seeds=0..1", "--out", &folder, "--device=cpu"]);
    format!("{folder}/00000000.png")
}

#[test]
fn a_signal_ends_sampling_restoring_and_measuring_at_once_and_nothing_is_left() {
    let scratch = Scratch::new("ending");
    let run = tiny_run(&scratch);
    let image = image_of(&scratch, &run);
    let out = scratch.path("out");
    std::fs::create_dir(&out).unwrap();
    let file = format!("{out}/file");
    let png = format!("{file}.png");
    let long: [&[&str]; 4] = [
        &["sample", &run, "--steps=100000", "--seeds=0..64", "--out", &png, "--device=cpu"],
        &["restore", &run, &image, "--degrade", "--level=1", "--steps=100000", "--out", &file, "--device=cpu"],
        &["schedule", "embedded:fashion-mnist", "--candidates=4000", "--out", &file],
        &["reproduce", "sampler-ablation", "--minutes=10", "--out", &file, "--device=cpu"],
    ];
    for arguments in long {
        for (name, code) in [("-TERM", 75), ("-HUP", 75), ("-INT", 130)] {
            let child = start(arguments);
            wait_for_handlers(&child);
            std::thread::sleep(Duration::from_millis(200));
            let (status, said) = end(child, name);
            assert_eq!(status, Some(code), "{arguments:?}: {said}");
            assert!(said.contains("stopped by"), "{said}");
            let left: Vec<String> = files(&out).into_iter().filter(|name| name.contains(".tmp")).collect();
            assert!(left.is_empty(), "{arguments:?} left {left:?}");
            assert!(arguments[0] == "reproduce" || files(&out).is_empty(), "{arguments:?} left {:?}", files(&out));
        }
    }
}

#[test]
fn a_signal_in_the_midst_of_writing_leaves_no_temporary_file() {
    let scratch = Scratch::new("ending-writing");
    let out = scratch.path("out");
    std::fs::create_dir(&out).unwrap();
    let file = format!("{out}/set.npz");
    let mut hits = 0;
    for _ in 0..5 {
        let mut child =
            start(&["data", "prepare", "embedded:fashion-mnist", "--size=256", "--limit=500", "--out", &file]);
        while files(&out).is_empty() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        end(child, "-TERM");
        assert!(files(&out).iter().all(|name| *name == file), "{:?}", files(&out));
        hits += usize::from(files(&out).is_empty());
        let _ = std::fs::remove_file(&file);
    }
    println!("{hits} of 5 signals came while it was writing");
}

/// A folder of photographs of noise.
fn photographs(scratch: &Scratch, count: u32) -> String {
    let folder = scratch.path("photographs");
    std::fs::create_dir(&folder).unwrap();
    for number in 0..count {
        let value = |i: u32| (i.wrapping_mul(2_654_435_761).wrapping_add(number * 77) >> 24) as u8;
        let pixels: Vec<u8> = (0..600 * 400).map(value).collect();
        std::fs::write(format!("{folder}/{number}.png"), png::encode(600, 400, 1, &pixels)).unwrap();
    }
    folder
}

#[test]
fn a_signal_while_crops_are_cut_leaves_no_file() {
    let scratch = Scratch::new("ending-crops");
    let (photographs, out) = (photographs(&scratch, 6), scratch.path("out"));
    std::fs::create_dir(&out).unwrap();
    let file = format!("{out}/crops.npz");
    for (name, code) in [("-TERM", 75), ("-HUP", 75), ("-INT", 130)] {
        let mut child = start(&["data", "prepare", &photographs, "--crops=64", "--count=400000", "--out", &file]);
        while files(&out).is_empty() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (status, said) = end(child, name);
        assert_eq!(status, Some(code), "{said}");
        assert!(files(&out).is_empty(), "{:?}", files(&out));
    }
}

#[test]
fn a_signal_ends_a_long_preparation_and_the_same_command_is_said_to_go_on() {
    let scratch = Scratch::new("ending-preparation");
    let run = scratch.path("run");
    let settings = ["--set=data.limit=1000", "--set=data.size=28", "--set=schedule.images=1000"];
    let begun = Instant::now();
    let child = start(&tiny(&run, &[&settings[..], &["--set=schedule.candidates=1000"]].concat()));
    while !Path::new(&run).join("preparation.toml").exists() {
        assert!(begun.elapsed() < PATIENCE, "it never began");
        std::thread::sleep(Duration::from_millis(5));
    }
    let (status, said) = end(child, "-TERM");
    assert_eq!(status, Some(75), "{said}");
    assert!(said.contains("stopped by SIGTERM"), "{said}");
    assert!(said.contains("hint: run the same command again to continue"), "{said}");
    assert!(files(&run).iter().all(|name| !name.contains(".tmp")), "{:?}", files(&run));
    assert!(!Path::new(&run).join("config.toml").exists());
}

/// The program where no file may have more than a block: 512 or 1024 bytes, as the shell counts.
fn limited(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_softdiff");
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 1 && exec \"$@\"", "sh", program]).args(arguments).output().unwrap()
}

#[test]
fn a_limit_on_file_sizes_is_an_error_with_the_path_and_nothing_is_left() {
    let scratch = Scratch::new("ending-limit");
    let run = tiny_run(&scratch);
    let (image, set) = (image_of(&scratch, &run), scratch.path("set.npz"));
    done(&["sample", &run, "--seeds=0..64", "--out", &set, "--device=cpu"]);
    let photographs = photographs(&scratch, 4);
    let out = scratch.path("out");
    let at = |name: &str| format!("{out}/{name}");
    let sample =
        |name: &str| ["sample", &run, "--seeds=0..64", "--device=cpu", "--out", &at(name)].map(str::to_owned).to_vec();
    let other = |arguments: &[&str]| arguments.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let commands = [
        sample("a.png"),
        sample("a.npz"),
        sample("a.zip"),
        other(&["report", &run, "--device=cpu", "--out", &at("report.html")]),
        other(&["export", &run, "--out", &at("model")]),
        other(&["export", &run, "--tensorboard", &at("board")]),
        other(&["schedule", "embedded:fashion-mnist", "--pool=32", "--images=32", "--out", &at("s.json")]),
        other(&["corrupt", "embedded:fashion-mnist", "--out", &at("c.png")]),
        other(&["data", "prepare", "embedded:fashion-mnist", "--limit=100", "--out", &at("d.npz")]),
        other(&["data", "prepare", &photographs, "--crops=32", "--count=40", "--out", &at("crops.npz")]),
        other(&["restore", &run, &image, "--degrade", "--level=1", "--seeds=0..4", "--device=cpu", "--out", &at("r")]),
        other(&["eval", &set, "--against", &set, "--metrics=sliced-wasserstein", "--out", &at("e.json")]),
        other(&["import", CHECKPOINT, "--out", &at("imported.safetensors")]),
        other(&["man", "--out", &at("man")]),
    ];
    for arguments in commands {
        std::fs::create_dir(&out).unwrap();
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = limited(&words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(
            said.starts_with("error: cannot write ") || said.contains("\nerror: cannot write "),
            "{words:?}: {said}"
        );
        assert!(
            said.contains(&out) && said.contains("File too large") && said.contains("ulimit -f"),
            "{words:?}: {said}"
        );
        assert!(!said.contains("ZipWriter"), "{said}");
        // Files of a folder that were whole before may stay.
        let whole = |name: &String| std::fs::metadata(name).unwrap().len() < 512;
        assert!(files(&out).iter().all(|name| whole(name) && !name.contains(".tmp")), "{words:?}: {:?}", files(&out));
        std::fs::remove_dir_all(&out).unwrap();
    }
}
