//! What does not fit into memory is refused with the number and the remedy; nothing is ended by a failed allocation.
#![cfg(target_os = "linux")]

mod support;

use std::process::{Command, Output};
use support::{Scratch, TINY, done, text, tiny_run};

/// 8 GiB of address space, in KiB.
const LIMIT: u64 = 8 << 20;

/// Runs the program under `ulimit -v`.
fn limited(kibibytes: u64, arguments: &[&str]) -> Output {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("ulimit -v {kibibytes}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_softdiff")]);
    command.args(arguments).output().unwrap()
}

/// What the program says when it refuses: an error with both numbers and a hint.
fn refused(output: &Output) -> String {
    let message = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(1 | 2)), "{:?}: {message}", output.status);
    assert!(message.contains("error:") && message.contains("hint:"), "{message}");
    assert!(!message.contains("memory allocation of"), "{message}");
    message
}

/// The same for what does not fit.
fn refused_for_memory(output: &Output) -> String {
    let message = refused(output);
    assert!(message.contains(" of memory, and ") && message.contains(" are available"), "{message}");
    message
}

#[test]
fn a_training_that_does_not_fit_is_refused_before_it_begins() {
    let scratch = Scratch::new("memory-train");
    let (run, images) = (scratch.path("run"), scratch.path("images.npz"));
    done(&["data", "prepare", "embedded:fashion-mnist", "--out", &images, "--limit", "16"]);
    let source = format!("--set=data.source={images}");
    let training = ["train", "quickstart", "--out", &run, "--device=cpu", &source];
    let cases: [(&[&str], &str); 4] = [
        (&["--set=network.channels=2048"], "network.channels"),
        (&["--set=network.channels=2048", "--dry-run"], "network.channels"),
        (&["--set=train.batch=16384"], "train.accumulate=2"),
        (&["--set=data.size=8192"], "data.size"),
    ];
    for (more, remedy) in cases {
        let message = refused_for_memory(&limited(LIMIT, &[&training, more].concat()));
        assert!(message.contains("under ulimit -v") && message.contains(remedy), "{more:?}: {message}");
    }
    let facts = done(&[&training[..], &["--dry-run", "--json"]].concat());
    let facts: serde_json::Value = serde_json::from_str(&facts).unwrap();
    assert!(facts["memory"].as_u64().unwrap() > 4 * facts["parameters"].as_u64().unwrap());
}

#[test]
fn a_batch_of_samples_that_does_not_fit_is_refused_and_any_seed_is_a_seed() {
    let scratch = Scratch::new("memory-sample");
    let (run, out) = (tiny_run(&scratch), scratch.path("samples.npz"));
    let sample = |more: &[&str]| limited(LIMIT, &[&["sample", &run, "--device=cpu", "--steps=1"], more].concat());
    let message = refused_for_memory(&sample(&["--seeds=0..1000000", "--batch=1000000", "--out", &out]));
    assert!(message.contains("smaller batch"), "{message}");
    let message = refused(&sample(&["--seeds=0..10000000", "--out", &scratch.path("samples.png")]));
    assert!(message.contains("a grid has at most 4096 images, and 10000000 are asked for"), "{message}");
    let message = refused(&sample(&["--seeds=0..10000000", "--out", &scratch.path("samples.zip")]));
    assert!(message.contains("a zip archive has at most"), "{message}");
    assert_eq!(std::fs::read_dir(scratch.path("")).unwrap().count(), 1, "only the run");
    let largest = sample(&["--seeds=18446744073709551615", "--out", &out]);
    assert!(largest.status.success(), "{}", text(&largest.stderr));
    let message = refused(&sample(&["--seeds=18446744073709551616"]));
    assert!(message.contains("18446744073709551615"), "{message}");
}

#[test]
fn images_are_written_as_they_are_made() {
    let scratch = Scratch::new("memory-stream");
    let run = tiny_run(&scratch);
    let sample = |batch: &str, out: &str| {
        let (batch, out) = (format!("--batch={batch}"), scratch.path(out));
        done(&["sample", &run, "--device=cpu", "--steps=1", "--seeds=0..10", &batch, "--out", &out]);
        out
    };
    for ending in ["npz", "zip", "png"] {
        let [whole, parts] = ["10", "3"].map(|batch| support::bytes(sample(batch, &format!("{batch}.{ending}"))));
        assert_eq!(whole, parts, "{ending}");
    }
    let folder = sample("3", "folder");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 10);
    // More images than would fit as numbers: 2,000,000 of 16 x 16 take 4 GB as f64.
    let out = scratch.path("many.npz");
    let arguments = ["sample", &run, "--device=cpu", "--steps=1", "--seeds=0..2000000", "--out", &out];
    let mut child = Command::new("bash")
        .args(["-c", "ulimit -v 2000000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_softdiff")])
        .args(arguments)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let temporary_grows = || {
        let files = std::fs::read_dir(scratch.path("")).unwrap().map(|entry| entry.unwrap());
        files
            .filter(|file| file.file_name().to_string_lossy().starts_with("many.npz"))
            .any(|file| file.metadata().is_ok_and(|metadata| metadata.len() > 16 * 16 * 256))
    };
    let mut waited = 0;
    while !temporary_grows() {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(std::time::Duration::from_millis(100));
        waited += 1;
        assert!(waited < 3000, "nothing was written in 300 s");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_model_whose_recipe_describes_a_larger_network_than_its_weights_is_refused_before_memory_is_taken() {
    let scratch = Scratch::new("memory-model");
    let (run, model) = (tiny_run(&scratch), scratch.path("model"));
    done(&["export", &run, "--out", &model]);
    std::fs::remove_file(format!("{model}/manifest.json")).unwrap();
    let config = format!("{model}/config.toml");
    let recipe = std::fs::read_to_string(&config).unwrap();
    assert!(recipe.contains("channels = 8\n"), "{recipe}");
    std::fs::write(&config, recipe.replace("channels = 8\n", "channels = 1024\n")).unwrap();
    // Far less than such a network takes.
    let message = refused(&limited(1 << 20, &["sample", &model, "--device=cpu", "--out", &scratch.path("a.png")]));
    assert!(
        message.contains("model.safetensors: it has ") && message.contains(" weights, and the network"),
        "{message}"
    );
    let _ = TINY;
}
