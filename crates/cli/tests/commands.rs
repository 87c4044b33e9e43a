//! Whole commands, run as a user runs them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// 256 CIFAR-10 test images.
fn pictures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../diffusion/tests/golden/cifar10-test-256.bin")
}

fn softdiff(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_softdiff")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_schedule_is_made_and_then_shown_as_a_strip() {
    let folder = tempfile::tempdir().unwrap();
    let (schedule, strip) = (folder.path().join("schedule.json"), folder.path().join("strip.png"));
    let (pictures, schedule, strip) = (pictures(), schedule.to_str().unwrap(), strip.to_str().unwrap());
    let pictures = pictures.to_str().unwrap();
    let small = ["--images", "64", "--candidates", "64", "--knots", "8", "--resamplings", "2", "--out", schedule];
    let made = softdiff(&[&["schedule", pictures, "--json"], &small[..]].concat());
    assert!(made.status.success(), "{}", text(&made.stderr));
    let json: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!(json["knots"].as_array().unwrap().len(), 8);
    assert_eq!(json["data"]["source"], "CIFAR-10 binary cifar10-test-256.bin");
    assert_eq!(std::fs::read(schedule).unwrap(), made.stdout);

    let shown = softdiff(&["corrupt", pictures, "--index", "3", "--schedule", schedule, "--out", strip, "--json"]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let json: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(json["shown"][9]["level"], 18.0);
    assert_eq!(&std::fs::read(strip).unwrap()[1..4], b"PNG");
}

#[test]
fn the_same_seed_gives_the_same_strip_and_every_corruption_has_one() {
    let folder = tempfile::tempdir().unwrap();
    let pictures = pictures();
    for corruption in ["blur", "heat", "masking", "pixelation", "fading", "decolourisation", "motion", "identity"] {
        let files = ["a.png", "b.png"].map(|name| {
            let out = folder.path().join(name);
            let shown = softdiff(&[
                "corrupt",
                pictures.to_str().unwrap(),
                "--corruption",
                corruption,
                "--steps",
                "4",
                "--out",
                out.to_str().unwrap(),
            ]);
            assert!(shown.status.success(), "{corruption}: {}", text(&shown.stderr));
            std::fs::read(out).unwrap()
        });
        assert!(files[0] == files[1], "{corruption}");
    }
}

#[test]
fn failures_name_the_cause_and_a_remedy_on_standard_error_only() {
    let pictures = pictures();
    let pictures = pictures.to_str().unwrap();
    let cases = [
        (vec!["corrupt", "no/such.bin"], "error: cannot read no/such.bin", Some("hint: check the path")),
        (vec!["corrupt", pictures, "--index", "256"], "has no image 256", Some("hint: give --index 0 to 255")),
        (vec!["corrupt", pictures, "--steps", "1"], "1 steps", Some("hint: give --steps 2 or more")),
        (vec!["corrupt", pictures, "--largest", "0"], "is 0", Some("hint: give a positive number")),
        (vec!["schedule", pictures, "--images", "900"], "256 images are not enough", Some("hint: give at least 900")),
        (vec!["schedule", pictures, "--knots", "300"], "300 knots cannot", Some("hint: give 2 to 256 knots")),
        (vec!["bench", "transport", "--python", "no-such-python"], "could not be started", Some("hint: give --python")),
    ];
    for (arguments, problem, hint) in cases {
        let failed = softdiff(&arguments);
        let said = text(&failed.stderr);
        assert_eq!(failed.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(problem), "{arguments:?}: {said}");
        assert!(hint.is_none_or(|hint| said.contains(hint)), "{arguments:?}: {said}");
        assert!(failed.stdout.is_empty());
    }
    assert_eq!(softdiff(&["corrupt", "--corruption", "blurr"]).status.code(), Some(2));
}

#[test]
fn help_of_every_verb_has_a_worked_example() {
    for verb in [vec!["schedule"], vec!["corrupt"], vec!["bench", "transport"]] {
        let help = softdiff(&[&verb[..], &["--help"]].concat());
        assert!(text(&help.stdout).contains("Example:"), "{verb:?}");
    }
}
