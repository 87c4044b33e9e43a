//! What `softdiff train` says before it begins, and what is left where it cannot.

mod support;

use serde_json::Value;
use support::{Scratch, bytes, done, softdiff, text, tiny};

#[test]
fn a_start_that_fails_leaves_no_folder_and_touches_none_that_was_there() {
    let scratch = Scratch::new("failed-start");
    let run = scratch.path("runs/deep/first");
    for wrong in ["--set=data.source=/no/such/images", "--set=data.size=9", "--set=train.from=/no/such/model"] {
        let failed = softdiff(&tiny(&run, &[wrong]));
        assert_eq!(failed.status.code(), Some(1), "{wrong}: {}", text(&failed.stderr));
        assert!(!std::path::Path::new(&scratch.path("runs")).exists(), "{wrong}");
    }
    let there = scratch.path("there");
    std::fs::create_dir(&there).unwrap();
    std::fs::write(format!("{there}/notes.txt"), "mine").unwrap();
    assert!(!softdiff(&tiny(&there, &["--set=data.source=/no/such/images"])).status.success());
    assert_eq!(bytes(format!("{there}/notes.txt")), b"mine");
    // A run that is there stays, whatever fails.
    done(&tiny(&run, &["--set=train.steps=4"]));
    assert!(!softdiff(&tiny(&run, &["--set=data.source=/no/such/images"])).status.success());
    done(&tiny(&run, &[]));
}

#[test]
fn a_dry_run_tells_levels_time_and_memory_and_warns_of_too_few_images() {
    let scratch = Scratch::new("dry-run");
    let run = scratch.path("run");
    let dry = |more: &[&str]| softdiff(&tiny(&run, &[&["--dry-run"], more].concat()));
    let told = text(&dry(&[]).stdout);
    assert!(told.contains("levels      16, 8 pixels with 8, 16 channels; attention at none"), "{told}");
    assert!(told.contains("time        about ") && told.contains("memory      about "), "{told}");
    let large = ["--set=data.size=128", "--set=network.preset=ncsnpp-cifar10", "--set=network.multipliers=", "--json"];
    let facts: Value = serde_json::from_slice(&dry(&large).stdout).unwrap();
    assert_eq!(
        (&facts["sides"], &facts["attention"]),
        (&serde_json::json!([128, 64, 32, 16, 8]), &serde_json::json!([16]))
    );
    assert!(facts["seconds"].as_f64().unwrap() > 0.0 && facts["step_seconds"].as_f64().unwrap() > 0.0, "{facts}");
    assert!(facts["config"].as_str().unwrap().contains("multipliers = [1, 1, 2, 2, 2]"), "{facts}");
    let often = dry(&["--set=data.limit=3"]);
    assert!(!text(&often.stderr).contains("warning:"), "{}", text(&often.stderr));
    let often = dry(&["--set=data.limit=3", "--set=train.steps=1000"]);
    let said = text(&often.stderr);
    assert!(said.contains("warning: 3 images, each shown 1333 times") && said.contains("train.steps=75"), "{said}");
    assert!(!std::path::Path::new(&run).exists());
}

#[test]
fn a_training_tells_memory_and_time_as_it_begins_and_a_recipe_without_levels_goes_on() {
    let scratch = Scratch::new("estimate");
    let run = scratch.path("run");
    let long =
        ["--set=network.multipliers=", "--set=train.steps=200", "--set=network.channels=16", "--set=train.batch=8"];
    let first = softdiff(&tiny(&run, &long));
    let said = text(&first.stderr);
    assert!(first.status.success() && said.contains("memory: about "), "{said}");
    assert!(said.contains("time: about ") && said.contains(" more steps, "), "{said}");
    let config = text(&bytes(format!("{run}/config.toml")));
    assert!(config.contains("multipliers = [1, 2, 2]\n") && config.contains("attention = []\n"), "{config}");
    done(&tiny(&run, &[&long[..], &["--set=train.steps=202"]].concat()));
    let other = softdiff(&tiny(&run, &["--set=network.channels=16", "--set=train.batch=8", "--set=train.steps=204"]));
    assert!(text(&other.stderr).contains("multipliers = [1, 2, 2] there"), "{}", text(&other.stderr));
}
