//! `softdiff restore` on a tiny run: every task gives its pictures, and what cannot be done says why.

mod support;

use serde_json::Value;
use softdiff::image::png;
use support::{Scratch, done, softdiff, text, tiny_run};

/// A grey picture file of some size with a bright square in it.
fn picture(scratch: &Scratch, name: &str, side: usize) -> String {
    let inside =
        |i: usize| (side / 4..side * 3 / 4).contains(&(i / side)) && (side / 4..side / 2).contains(&(i % side));
    let pixels: Vec<u8> = (0..side * side).map(|i| if inside(i) { 255 } else { 0 }).collect();
    let path = scratch.path(name);
    std::fs::write(&path, png::encode(side, side, 1, &pixels)).unwrap();
    path
}

#[test]
fn every_task_gives_samples_their_mean_their_spread_and_scores() {
    let scratch = Scratch::new("restore");
    let run = tiny_run(&scratch);
    let (clean, mask, small) =
        (picture(&scratch, "clean.png", 16), picture(&scratch, "mask.png", 16), picture(&scratch, "small.png", 8));
    let kernel = scratch.path("kernel.json");
    std::fs::write(&kernel, r#"{"kernel": [0.25, 0.5, 0.25], "boundary": "reflect"}"#).unwrap();
    let out = scratch.path("out");
    let common = ["--seeds", "0..2", "--out", &out, "--force", "--device", "cpu", "--json"];
    let cases: [(&str, &str, Vec<&str>); 6] = [
        ("deblur", &clean, vec!["--degrade", "--level", "2"]),
        ("the path's corruption", &clean, vec!["--degrade", "--time", "0.5"]),
        ("inpaint", &clean, vec!["--degrade", "--mask", &mask]),
        ("super-resolve", &small, vec!["--truth", &clean]),
        ("denoise", &clean, vec!["--degrade", "--task", "denoise", "--noise", "0.05"]),
        ("undo a map", &clean, vec!["--degrade", "--corruption", "custom", "--map", &kernel]),
    ];
    for (task, picture, flags) in cases {
        let printed = done(&[&["restore", &run, picture], &flags[..], &common[..]].concat());
        let facts: Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(facts["task"], task);
        // The kernel of 1, 2, 1 is so near to a blur of the path that it is entered there.
        let entered = facts["entered_at"].as_f64().unwrap();
        assert_eq!(entered == 1.0, ["inpaint", "super-resolve"].contains(&task), "{task}: {entered}");
        assert_eq!(facts["files"].as_array().unwrap().len(), 6, "{task}");
        for file in ["seen.png", "mean.png", "spread.png", "sample-000.png", "sample-001.png", "sheet.png"] {
            softdiff::image::decode(&support::bytes(format!("{out}/{file}"))).unwrap();
        }
        assert!(facts["scores"]["mean"]["psnr"].as_f64().is_some(), "{facts}");
        assert_eq!(facts["scores"]["samples"].as_array().unwrap().len(), 2);
        // What was seen is kept.
        assert!(facts["misfit"].as_f64().unwrap() < 4.0, "{task}: {facts}");
    }
    // A sharp picture is told to be sharp, and stays as it is.
    let sharp = done(&[&["restore", &run, &clean, "--truth", &clean], &common[..]].concat());
    assert_eq!(serde_json::from_str::<Value>(&sharp).unwrap()["entered_at"], 0.0);
    let free = done(&[&["restore", &run, &clean, "--degrade", "--level", "2", "--free"], &common[..]].concat());
    assert!(serde_json::from_str::<Value>(&free).unwrap()["misfit"].as_f64().unwrap() > 4.0);
}

#[test]
fn a_folder_of_results_is_neither_replaced_without_force_nor_named_like_a_file() {
    let scratch = Scratch::new("restore-twice");
    let run = tiny_run(&scratch);
    let (clean, out) = (picture(&scratch, "clean.png", 16), scratch.path("out"));
    std::fs::create_dir(&out).unwrap();
    std::fs::write(format!("{out}/mean.png"), "precious").unwrap();
    let flags =
        ["restore", &run, &clean, "--level", "1", "--seeds", "0..1", "--steps", "2", "--device", "cpu", "--out"];
    let refused = softdiff(&[&flags[..], &[&out]].concat());
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said.contains("mean.png exists already") && said.contains("--force"), "{said}");
    assert_eq!(support::bytes(format!("{out}/mean.png")), b"precious");
    done(&[&flags[..], &[&out, "--force"]].concat());
    softdiff::image::decode(&support::bytes(format!("{out}/mean.png"))).unwrap();
    let file = scratch.path("new.png");
    let refused = softdiff(&[&flags[..], &[&file]].concat());
    let said = text(&refused.stderr);
    assert!(said.contains("new.png is a file, and the images need a folder") && said.contains("hint: "), "{said}");
    assert!(!std::path::Path::new(&file).exists());
}

#[test]
fn what_cannot_be_restored_says_why() {
    let scratch = Scratch::new("restore-bad");
    let run = tiny_run(&scratch);
    let (clean, large, odd) =
        (picture(&scratch, "clean.png", 16), picture(&scratch, "large.png", 20), picture(&scratch, "odd.png", 7));
    for (flags, problem, hint) in [
        (vec![&*large], "has 20x20 pixels, this model makes 16x16", "hint: cut or resize it to 16x16"),
        (vec![&odd], "no whole fraction", "hint: shrink or cut it"),
        (vec![&clean, "--task", "inpaint"], "no mask", "hint: give --mask"),
        (vec![&clean, "--degrade"], "how much", "hint: give --level"),
        (vec![&clean, "--corruption", "motion"], "length of the motion", "hint: give --level"),
        (vec![&clean, "--corruption", "defocus"], "radius of the disc", "hint: give --level"),
        (vec![&clean, "--time", "1.5"], "time 1.5 is outside the path", "hint: give a time from 0"),
        (vec![&clean, "--level", "-1"], "-1", "hint: give a level from 0"),
        (vec![&clean, "--level", "1", "--noise", "-1"], "is -1", "hint: give a deviation"),
        (vec![&clean, "--noise", "7"], "the noise of the observation is 7", "hint: give a deviation from 0 to 1"),
    ] {
        let failed = softdiff(&[&["restore", &run], &flags[..]].concat());
        let said = text(&failed.stderr);
        assert_eq!(failed.status.code(), Some(1), "{flags:?}: {said}");
        assert!(said.contains(problem) && said.contains(hint), "{flags:?}: {said}");
    }
    assert_eq!(softdiff(&["restore", &run, &clean, "--corruption", "custom"]).status.code(), Some(2));
}

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../softdiff/tests/golden/blurred");
const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/cifar10-small");
const PHOTOGRAPHS: [&str; 4] = ["astronaut", "coffee", "chelsea", "rocket"];

/// What `softdiff restore` says of a photograph that another program blurred, and how many dB it gained.
fn restored(scratch: &Scratch, photograph: &str, blurred_by: &str, flags: &[&str]) -> (Value, f64) {
    let (seen, truth) = (format!("{GOLDEN}/{photograph}-{blurred_by}.png"), format!("{GOLDEN}/{photograph}.png"));
    let out = scratch.path("out");
    let common = ["--seeds", "0..1", "--steps", "10", "--truth", &truth];
    let short = [&common[..], &["--out", &out, "--force", "--device", "cpu", "--json"]].concat();
    let printed = done(&[&["restore", MODEL, &seen], &short[..], flags].concat());
    let facts: Value = serde_json::from_str(&printed).unwrap();
    let psnr = |of: &str| facts["scores"][of]["psnr"].as_f64().unwrap();
    let gained = psnr("mean") - psnr("seen");
    (facts, gained)
}

#[test]
fn photographs_blurred_by_pillow_and_scipy_become_better_without_any_flag() {
    let scratch = Scratch::new("restore-blurred");
    for photograph in PHOTOGRAPHS {
        for (blurred_by, least) in [("pillow", 1.5), ("reflect", 3.0), ("nearest", 2.0)] {
            let (facts, gained) = restored(&scratch, photograph, blurred_by, &[]);
            assert!(gained > least, "{photograph} by {blurred_by}: {gained} dB, {facts}");
            assert_eq!(facts["boundary"], "reflect");
            assert_eq!(facts["warning"], Value::Null, "{photograph} by {blurred_by}");
        }
    }
}

#[test]
fn a_sample_of_a_noisy_photograph_is_far_less_noisy() {
    let scratch = Scratch::new("restore-noisy");
    let (truth, out) = (format!("{GOLDEN}/chelsea.png"), scratch.path("out"));
    let flags = ["--degrade", "--task", "denoise", "--noise", "0.1", "--seeds", "0..1", "--steps", "10"];
    let printed = done(&[&["restore", MODEL, &truth, "--out", &out, "--device", "cpu", "--json"], &flags[..]].concat());
    let facts: Value = serde_json::from_str(&printed).unwrap();
    let psnr = |of: &Value| of["psnr"].as_f64().unwrap();
    let (seen, sample) = (psnr(&facts["scores"]["seen"]), psnr(&facts["scores"]["samples"][0]));
    assert!(sample > seen + 2.5, "{facts}");
}

#[test]
fn the_boundary_that_is_given_is_used_and_a_wrong_one_is_warned_of() {
    let scratch = Scratch::new("restore-boundary");
    for photograph in PHOTOGRAPHS {
        let (facts, gained) = restored(&scratch, photograph, "zero", &["--boundary", "zero", "--level", "1.5"]);
        assert_eq!((&facts["boundary"], &facts["warning"]), (&Value::from("zero"), &Value::Null));
        assert!(gained > 2.0, "{photograph}: {gained} dB");
        let (facts, gained) = restored(&scratch, photograph, "pillow", &["--boundary", "zero"]);
        assert!(gained < 0.0 && facts["misfit"].as_f64().unwrap() > 2.0, "{photograph}: {facts}");
        assert!(facts["warning"].as_str().unwrap().contains("try another --boundary"), "{facts}");
    }
    let seen = format!("{GOLDEN}/coffee-pillow.png");
    let out = scratch.path("out");
    let short = ["--seeds", "0..1", "--steps", "4", "--out", &out, "--force", "--device", "cpu"];
    let wrong = softdiff(&[&["restore", MODEL, &seen, "--boundary", "zero"], &short[..]].concat());
    let said = text(&wrong.stderr);
    assert!(said.contains("boundary zero") && said.contains("warning: ") && said.contains("hint: "), "{said}");
    // What is degraded here is degraded as the model does it, unless another boundary is given.
    let degraded = |flags: &[&str]| -> Value {
        let sharp = format!("{GOLDEN}/coffee.png");
        let common = ["restore", MODEL, &sharp, "--degrade", "--level", "1", "--json"];
        serde_json::from_str(&done(&[&common, &short[..], flags].concat())).unwrap()
    };
    assert_eq!(degraded(&[])["boundary"], "reflect");
    assert_eq!(degraded(&["--boundary", "periodic"])["boundary"], "periodic");
}

#[test]
fn a_flag_that_would_change_nothing_is_refused() {
    let scratch = Scratch::new("restore-unused");
    let run = tiny_run(&scratch);
    let clean = picture(&scratch, "clean.png", 16);
    for (flags, flag) in [
        (vec!["--task", "denoise", "--level", "2"], "--level"),
        (vec!["--task", "denoise", "--corruption", "blur"], "--corruption"),
        (vec!["--mask", &clean, "--boundary", "zero"], "--boundary"),
        (vec!["--corruption", "heat", "--boundary", "zero"], "--boundary"),
        (vec!["--level", "1", "--vertical"], "--vertical"),
        (vec!["--level", "1", "--map", "kernel.json"], "--map"),
        (vec!["--level", "1", "--factor", "2"], "--factor"),
        (vec!["--corruption", "blur", "--mask", &clean], "--mask"),
    ] {
        let failed = softdiff(&[&["restore", &run, &clean], &flags[..]].concat());
        let said = text(&failed.stderr);
        assert_eq!(failed.status.code(), Some(1), "{flags:?}: {said}");
        assert!(
            said.contains(&format!("{flag} has no effect")) && said.contains("hint: leave it out"),
            "{flags:?}: {said}"
        );
    }
}

#[test]
fn only_keys_of_sampling_that_act_are_changed() {
    let scratch = Scratch::new("restore-set");
    let run = tiny_run(&scratch);
    let clean = picture(&scratch, "clean.png", 16);
    let (out, grid) = (scratch.path("out"), scratch.path("grid.png"));
    let restore = ["restore", &run, &clean, "--level=1", "--seeds=0..1", "--device=cpu", "--out", &out];
    let sample = ["sample", &run, "--seeds=0..1", "--device=cpu", "--out", &grid];
    let export = ["export", &run, "--out", &scratch.path("model")];
    for (command, set, problem, hint) in [
        (
            &restore[..],
            "sample.guidance=2",
            "sample.guidance has no effect: restored images are not guided",
            "leave it out",
        ),
        (&restore, "train.steps=4", "\"train.steps\" is no key of [sample]", "sample.steps=40"),
        (&sample, "train.steps=4", "\"train.steps\" is no key of [sample]", "sample.steps=40"),
        (&export, "data.size=8", "\"data.size\" is no key of [sample]", "sample.steps=40"),
        (&sample, "sample.weights=raw", "sample.weights has no effect here", "--weights"),
    ] {
        let failed = softdiff(&[command, &["--set", set]].concat());
        let said = text(&failed.stderr);
        assert!(failed.status.code() == Some(2) && said.contains(problem) && said.contains(hint), "{set}: {said}");
    }
    done(&[&restore[..], &["--set", "sample.steps=3"]].concat());
    done(&[&restore[..], &["--force", "--free", "--set", "sample.guidance=1"]].concat());
}
