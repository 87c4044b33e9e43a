//! Folders from someone else: nothing outside them is touched, nothing blocks, and damage is said, never sampled from.
#![cfg(unix)]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Scratch, command, done, softdiff, text, tiny, tiny_run};

/// Longest that a refusal may take.
const PATIENCE: Duration = Duration::from_secs(20);

fn copy(from: &str, to: &str) {
    assert!(Command::new("cp").args(["-r", from, to]).status().unwrap().success());
}

/// Whether the command fails by itself in time, and what it said.
fn refused(arguments: &[&str]) -> String {
    ended(arguments, &[1, 2])
}

/// Whether the command ends by itself in time with one of these codes, and what it said.
fn ended(arguments: &[&str], codes: &[i32]) -> String {
    let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("{arguments:?} did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.code().is_some_and(|code| codes.contains(&code)), "{arguments:?}: {said}");
    said
}

#[test]
fn no_file_outside_a_run_is_written_through_a_link_in_it() {
    let scratch = Scratch::new("untrusted-links");
    let run = tiny_run(&scratch);
    let precious = scratch.path("precious");
    let names = ["events.jsonl", "run.lock", "config.toml.tmp", "env.json.tmp", "checkpoints/latest.tmp"];
    for (number, name) in names.into_iter().enumerate() {
        let other = scratch.path(&format!("linked-{number}"));
        copy(&run, &other);
        fs::write(&precious, "precious").unwrap();
        let link = Path::new(&other).join(name);
        let _ = fs::remove_file(&link);
        symlink(&precious, &link).unwrap();
        softdiff(&tiny(&other, &["--set=train.steps=9"]));
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious", "{name}");
    }
}

#[test]
fn pipes_devices_links_and_endless_files_are_refused_at_once() {
    let scratch = Scratch::new("untrusted-special");
    let run = tiny_run(&scratch);
    let newest = "checkpoints/step-000000008";
    let files = [
        "config.toml",
        "schedule.json",
        "prior.safetensors",
        &format!("{newest}/manifest.json"),
        &format!("{newest}/ema-0.9.safetensors"),
    ];
    let out = scratch.path("out.png");
    for (number, name) in files.iter().enumerate() {
        for kind in ["pipe", "device", "link", "sparse"] {
            let other = scratch.path(&format!("special-{number}-{kind}"));
            copy(&run, &other);
            let path = Path::new(&other).join(name);
            let content = fs::read(&path).unwrap();
            fs::remove_file(&path).unwrap();
            match kind {
                "pipe" => assert!(Command::new("mkfifo").arg(&path).status().unwrap().success()),
                "device" => symlink("/dev/zero", &path).unwrap(),
                "link" => {
                    let elsewhere = scratch.path(&format!("elsewhere-{number}"));
                    fs::write(&elsewhere, content).unwrap();
                    symlink(&elsewhere, &path).unwrap();
                }
                _ => fs::File::create(&path).unwrap().set_len(20 << 30).unwrap(),
            }
            let said = refused(&["sample", &other, "--out", &out, "--device=cpu", "--checkpoint=last"]);
            assert!(
                said.contains(Path::new(name).file_name().unwrap().to_str().unwrap()) || said.contains("no model"),
                "{name} {kind}: {said}"
            );
            fs::remove_dir_all(&other).unwrap();
        }
    }
}

#[test]
fn a_log_of_events_without_end_is_refused_by_training_watching_and_exporting() {
    let scratch = Scratch::new("untrusted-log");
    let run = tiny_run(&scratch);
    fs::OpenOptions::new().write(true).open(format!("{run}/events.jsonl")).unwrap().set_len(40 << 30).unwrap();
    let said = refused(&tiny(&run, &["--set=train.steps=9"]));
    assert!(said.contains("events.jsonl") && said.contains("more than the 1073741824 bytes"), "{said}");
    refused(&["watch", &run, "--once"]);
    refused(&["export", &run, "--csv", &scratch.path("tables")]);
}

#[test]
fn a_folder_of_a_run_that_is_a_link_is_refused() {
    let scratch = Scratch::new("untrusted-folders");
    let run = tiny_run(&scratch);
    let (elsewhere, out) = (scratch.path("elsewhere"), scratch.path("out.png"));
    copy(&format!("{run}/checkpoints"), &elsewhere);
    for (number, name) in ["checkpoints", "samples", "checkpoints/step-000000008"].into_iter().enumerate() {
        let other = scratch.path(&format!("folder-{number}"));
        copy(&run, &other);
        fs::remove_dir_all(format!("{other}/{name}")).unwrap();
        symlink(&elsewhere, format!("{other}/{name}")).unwrap();
        let said = refused(&["sample", &other, "--out", &out, "--device=cpu", "--checkpoint=last"]);
        assert!(said.contains("symbolic link"), "{name}: {said}");
        if !name.contains('/') {
            refused(&tiny(&other, &["--set=train.steps=9"]));
        }
    }
}

#[test]
fn a_folder_that_is_a_link_is_refused_by_every_command_that_reads_or_writes_a_run() {
    let scratch = Scratch::new("untrusted-every");
    let run = tiny_run(&scratch);
    let (elsewhere, images) = (scratch.path("elsewhere"), scratch.path("images.npz"));
    fs::create_dir(&elsewhere).unwrap();
    done(&["sample", &run, "--seeds=0..4", "--out", &images, "--device=cpu"]);
    for name in ["samples", "evaluations"] {
        let other = scratch.path(&format!("linked-{name}"));
        copy(&run, &other);
        let _ = fs::remove_dir_all(format!("{other}/{name}"));
        // A run that has only begun has no prior, and is reported all the same.
        fs::remove_file(format!("{other}/prior.safetensors")).unwrap();
        symlink(&elsewhere, format!("{other}/{name}")).unwrap();
        let tables = scratch.path("tables");
        let evaluation = ["eval", &images, "--against", &images, "--metrics=sliced-wasserstein", "--run", &other];
        let commands: [&[&str]; 5] = [
            &["report", &other, "--device=cpu"],
            &["watch", &other, "--once"],
            &["export", &other, "--csv", &tables],
            &["export", &other, "--tensorboard", &tables],
            &evaluation,
        ];
        for arguments in commands {
            if name == "samples" && arguments[0] == "eval" {
                continue;
            }
            let said = refused(arguments);
            assert!(said.contains("symbolic link"), "{arguments:?}: {said}");
        }
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn a_pipe_or_device_where_a_command_writes_into_a_folder_is_replaced_and_nothing_waits_for_it() {
    let scratch = Scratch::new("untrusted-outputs");
    let run = tiny_run(&scratch);
    let model = scratch.path("model");
    fs::create_dir(&model).unwrap();
    let places = [format!("{run}/report.html"), format!("{model}/manifest.json"), format!("{model}/prior.safetensors")];
    for kind in ["pipe", "device"] {
        for place in &places {
            let _ = fs::remove_file(place);
            match kind {
                "pipe" => assert!(Command::new("mkfifo").arg(place).status().unwrap().success()),
                _ => symlink("/dev/full", place).unwrap(),
            }
        }
        ended(&["report", &run, "--samples=0", "--device=cpu"], &[0]);
        ended(&["export", &run, "--out", &model, "--force"], &[0]);
        for place in &places {
            assert!(fs::symlink_metadata(place).unwrap().is_file(), "{place}");
        }
    }
}

#[test]
fn pipes_and_endless_files_are_refused_wherever_a_file_is_named_or_looked_for() {
    let scratch = Scratch::new("untrusted-named");
    let (pipe, folder) = (scratch.path("pipe"), scratch.path("diffusers"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fs::create_dir(&folder).unwrap();
    assert!(Command::new("mkfifo").arg(format!("{folder}/model_index.json")).status().unwrap().success());
    symlink("/dev/zero", format!("{folder}/config.json")).unwrap();
    refused(&["sample", &folder, "--device=cpu"]);
    refused(&["import", &folder]);
    for file in [&pipe, "/dev/zero"] {
        refused(&["eval", "compare", file, file]);
        refused(&["recipe", "show", file]);
        refused(&["recipe", "check", file]);
        refused(&["import", file]);
        refused(&["data", "inspect", file]);
        refused(&["corrupt", file, "--out", &scratch.path("c.png")]);
    }
    let out = scratch.path("experiment");
    fs::create_dir_all(format!("{out}/schedule-oracle")).unwrap();
    assert!(Command::new("mkfifo").arg(format!("{out}/schedule-oracle/results.json")).status().unwrap().success());
    refused(&["reproduce", "schedule-oracle", "--data=embedded:fashion-mnist", "--out", &out]);
}

#[test]
fn a_damaged_newest_checkpoint_is_an_error_that_names_an_older_one() {
    let scratch = Scratch::new("untrusted-damaged");
    let run = tiny_run(&scratch);
    let weights = format!("{run}/checkpoints/step-000000008/ema-0.9.safetensors");
    let length = fs::metadata(&weights).unwrap().len();
    fs::OpenOptions::new().write(true).open(&weights).unwrap().set_len(length - 1).unwrap();
    let out = scratch.path("out.png");
    let sample = ["sample", &run, "--out", &out, "--device=cpu", "--seeds=0..2"];
    let said = refused(&sample);
    assert!(said.contains("ema-0.9.safetensors is damaged") && said.contains("--checkpoint 4"), "{said}");
    done(&[&sample[..], &["--checkpoint=4"]].concat());
}

#[test]
fn training_goes_on_from_an_older_checkpoint_only_if_told_to_and_ends_as_if_nothing_had_been() {
    let scratch = Scratch::new("untrusted-train");
    let run = tiny_run(&scratch);
    let (straight, checkpoints) = (scratch.path("straight"), format!("{run}/checkpoints"));
    copy(&run, &straight);
    // What a killed process leaves is no damage.
    fs::create_dir(format!("{checkpoints}/step-000000009.tmp-1")).unwrap();
    done(&tiny(&run, &[]));
    let weights = format!("{checkpoints}/step-000000008/ema-0.9.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&weights, bytes).unwrap();
    let said = refused(&tiny(&run, &[]));
    assert!(said.contains("step-000000008/ema-0.9.safetensors is damaged"), "{said}");
    assert!(said.contains(&format!("softdiff train --out {run} --checkpoint 4")), "{said}");
    let said = refused(&["train", "--out", &run, "--checkpoint", "5", "--device=cpu"]);
    assert!(said.contains("has no checkpoint at step 5") && said.contains("one of 4, 8"), "{said}");
    done(&["train", "--out", &run, "--checkpoint", "4", "--device=cpu"]);
    assert!(fs::exists(format!("{checkpoints}/aside-step-000000008")).unwrap(), "what is set aside is kept");
    done(&["train", "--out", &run, "--device=cpu"]);
    for file in ["events.jsonl", "checkpoints/step-000000008/params.safetensors", "samples/preview-000000008.png"] {
        let read = |run: &str| fs::read(format!("{run}/{file}")).unwrap();
        assert!(read(&run) == read(&straight), "{file} differs");
    }
}

#[test]
fn removing_the_lock_file_of_a_run_lets_no_second_writer_in() {
    let scratch = Scratch::new("untrusted-lock");
    let run = scratch.path("run");
    let mut first = command(&tiny(&run, &["--set=train.steps=1000000"])).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while !fs::exists(format!("{run}/checkpoints/step-000000004")).unwrap() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it never began");
        std::thread::sleep(Duration::from_millis(5));
    }
    fs::remove_file(format!("{run}/run.lock")).unwrap();
    let said = refused(&tiny(&run, &["--set=train.steps=1000000"]));
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(said.contains("is being written by"), "{said}");
}

#[test]
fn a_changed_prior_schedule_or_recipe_is_noticed_before_anything_is_sampled() {
    let scratch = Scratch::new("untrusted-changed");
    let run = tiny_run(&scratch);
    let out = scratch.path("out.png");
    let sample = |run: &str| refused(&["sample", run, "--out", &out, "--device=cpu", "--seeds=0..2"]);
    let changed = |name: &str, change: &dyn Fn(Vec<u8>) -> Vec<u8>| {
        let other = scratch.path(&format!("changed-{name}"));
        copy(&run, &other);
        let path = Path::new(&other).join(name);
        fs::write(&path, change(fs::read(&path).unwrap())).unwrap();
        other
    };
    // One bit of the last number.
    let prior = changed("prior.safetensors", &|mut bytes| {
        let last = bytes.len() - 8;
        bytes[last] ^= 1;
        bytes
    });
    assert!(sample(&prior).contains("prior_hash"));
    let replace = |from: &'static str, to: &'static str| {
        move |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.contains(from), "{text}");
            text.replace(from, to).into_bytes()
        }
    };
    let recipe = changed("config.toml", &replace("sampler = \"heun\"", "sampler = \"multistep\""));
    assert!(sample(&recipe).contains("config_hash"));
    let schedule = changed("schedule.json", &replace("\"seed\": 0", "\"seed\": 1"));
    assert!(sample(&schedule).contains("schedule_hash"));
}

#[test]
fn an_interrupted_preparation_is_not_taken_over_by_another_recipe() {
    let scratch = Scratch::new("untrusted-preparation");
    let run = scratch.path("run");
    done(&tiny(&run, &["--set=train.steps=1"]));
    // As if killed before the recipe was written: the measurements are there, and no checkpoint.
    fs::remove_file(format!("{run}/config.toml")).unwrap();
    fs::remove_dir_all(format!("{run}/checkpoints")).unwrap();
    done(&tiny(&run, &["--set=train.steps=1", "--set=schedule.knots=6"]));
    let schedule: serde_json::Value =
        serde_json::from_slice(&fs::read(format!("{run}/schedule.json")).unwrap()).unwrap();
    assert_eq!(schedule["knots"].as_array().unwrap().len(), 6);
    assert!(!Path::new(&run).join("preparation.toml").exists());
}

#[test]
fn missing_events_and_a_damaged_note_of_the_images_are_said() {
    let scratch = Scratch::new("untrusted-notes");
    let run = tiny_run(&scratch);
    let events = format!("{run}/events.jsonl");
    let whole = fs::read_to_string(&events).unwrap();
    let go_on = |steps: &str| {
        let output = softdiff(&tiny(&run, &[&format!("--set=train.steps={steps}")]));
        (output.status.success(), text(&output.stderr))
    };
    let kept: String =
        whole.lines().filter(|line| !line.contains("\"step\":4")).map(|line| format!("{line}\n")).collect();
    fs::write(&events, kept).unwrap();
    let (well, said) = go_on("9");
    assert!(well && said.contains("the events of steps 2 to 6 are missing"), "{said}");
    fs::remove_file(&events).unwrap();
    let (well, said) = go_on("10");
    assert!(well && said.contains("the events of steps 0 to 9 are missing"), "{said}");
    fs::write(format!("{run}/data.json"), "{").unwrap();
    let (well, said) = go_on("11");
    assert!(!well && said.contains("data.json cannot be read") && said.contains("remove the file"), "{said}");
    fs::remove_file(format!("{run}/data.json")).unwrap();
    assert!(go_on("11").0);
}

#[test]
fn a_model_card_has_no_markup_from_the_name_of_a_recipe() {
    let scratch = Scratch::new("untrusted-card");
    let (run, model) = (scratch.path("run"), scratch.path("model"));
    done(&tiny(&run, &["--set=name=<script>alert(1)</script>"]));
    done(&["export", &run, "--out", &model]);
    let card = fs::read_to_string(format!("{model}/README.md")).unwrap();
    assert!(card.contains(r"\<script\>alert(1)\</script\>") && !card.contains("# <script"), "{card}");
}

#[test]
fn a_level_below_zero_is_refused_with_what_may_be_given() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/cifar10-small");
    let image = concat!(env!("CARGO_MANIFEST_DIR"), "/../softdiff/tests/golden/blurred/coffee.png");
    let said = refused(&["restore", model, image, "--degrade", "--corruption", "heat", "--level=-1"]);
    assert!(said.contains("the level of the blur is -1") && said.contains("give a level from 0 on"), "{said}");
}
