//! `softdiff doctor`: what is missing comes with the command that provides it, and the CPU is tested without a GPU.

mod support;

use serde_json::Value;
use support::{Scratch, command, text};

/// The program with folders of its own, on a machine without a GPU.
fn doctor(scratch: &Scratch, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = command(&[&["doctor"], arguments].concat());
    command.env("SOFTDIFF_CACHE", scratch.path("cache")).env_remove("SOFTDIFF_INCEPTION").env_remove("SOFTDIFF_DATA");
    let output = command.env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn what_is_missing_comes_with_the_command_that_provides_it() {
    let scratch = Scratch::new("doctor");
    let (code, out, said) = doctor(&scratch, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(out.contains(&format!("data      {}", scratch.path("cache/data"))), "{out}");
    assert!(out.contains("not here: softdiff data fetch cifar10 fashion-mnist mnist"), "{out}");
    assert!(out.contains("no FID or KID: softdiff data fetch fid-inception"), "{out}");
    std::fs::create_dir_all(scratch.path("cache/data")).unwrap();
    for file in ["cifar-10-binary.tar.gz", "pt_inception-2015-12-05-6726825d.pth"] {
        std::fs::write(scratch.path(&format!("cache/data/{file}")), "").unwrap();
    }
    let facts: Value = serde_json::from_str(&doctor(&scratch, &["--json"]).1).unwrap();
    assert_eq!(facts["data"]["here"], serde_json::json!(["cifar10"]));
    assert!(facts["inception"]["file"].as_str().unwrap().ends_with("6726825d.pth"), "{facts}");
    assert!(facts["cpu"]["threads"].as_u64().unwrap() > 0);
    #[cfg(target_os = "linux")]
    assert!(facts["memory"]["total_bytes"].as_u64().unwrap() >= facts["memory"]["available_bytes"].as_u64().unwrap());
}

#[test]
fn the_cpu_is_tested_without_a_gpu_and_a_gpu_that_is_asked_for_must_be_there() {
    let scratch = Scratch::new("doctor-test");
    for device in ["auto", "cpu"] {
        let (code, out, said) = doctor(&scratch, &["--self-test", "--device", device]);
        assert_eq!(code, Some(0), "{out}{said}");
        let line = out.lines().last().unwrap();
        let (agree, all) = line.strip_prefix("cpu: ").unwrap().split_once(" of ").unwrap();
        assert!(all.starts_with(&format!("{agree} comparisons")) && !out.contains("FAIL"), "{out}");
    }
    let facts: Value = serde_json::from_str(&doctor(&scratch, &["--self-test", "--json"]).1).unwrap();
    let checks = facts["self_test"].as_array().unwrap();
    assert!(checks.len() > 100 && checks.iter().all(|check| check["passed"] == true && check["device"] == "cpu"));
    let (code, _, said) = doctor(&scratch, &["--self-test", "--device", "cuda"]);
    assert!(code == Some(1) && said.contains("hint: "), "{said}");
}
