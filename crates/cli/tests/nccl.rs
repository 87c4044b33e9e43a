//! NCCL and GPUs on machines without them: what is missing or too old is said with what to do.
#![cfg(target_os = "linux")]

mod support;

use serde_json::Value;
use std::process::Command;
use support::{Scratch, command, text};

/// A library with the functions of NCCL that says it has this version; none without a C compiler.
fn fake_nccl(scratch: &Scratch, version: i32) -> Option<String> {
    let functions = [
        "GetUniqueId",
        "CommInitRank",
        "CommDestroy",
        "GroupStart",
        "GroupEnd",
        "Send",
        "Recv",
        "AllGather",
        "AllReduce",
        "Broadcast",
        "GetErrorString",
        "GetLastError",
    ];
    let mut code = format!("int ncclGetVersion(int *version) {{ *version = {version}; return 0; }}\n");
    functions.iter().for_each(|name| code += &format!("int nccl{name}(void) {{ return 0; }}\n"));
    let (source, library) = (scratch.path("nccl.c"), scratch.path(&format!("libnccl-{version}.so")));
    std::fs::write(&source, code).unwrap();
    let Ok(made) = Command::new("cc").args(["-shared", "-fPIC", "-o", &library, &source]).output() else {
        println!("skipped: there is no C compiler");
        return None;
    };
    assert!(made.status.success(), "{}", text(&made.stderr));
    Some(library)
}

/// What `doctor` says about NCCL where this file is named as the library.
fn said_about_nccl(library: &str) -> Value {
    let output = command(&["doctor", "--json"]).env("SOFTDIFF_NCCL", library).output().unwrap();
    let facts: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let found = facts["libraries"].as_array().unwrap().iter().find(|library| library["what"] == "NCCL");
    found.unwrap().clone()
}

#[test]
fn an_old_nccl_is_refused_with_what_to_install_and_a_newer_one_taken() {
    let scratch = Scratch::new("nccl");
    let (Some(old), Some(new)) = (fake_nccl(&scratch, 21_210), fake_nccl(&scratch, 21_403)) else { return };
    let said = said_about_nccl(&old);
    assert_eq!(said["missing"], format!("{old} is NCCL 2.12.10: at least 2.14.0 is needed"));
    assert!(said["hint"].as_str().unwrap().contains("pip install nvidia-nccl-cu13"), "{said}");
    assert_eq!(said_about_nccl(&new)["loaded"], new);
}

#[test]
fn a_missing_nccl_is_said_with_what_to_install() {
    let said = said_about_nccl("/nowhere/libnccl.so.2");
    if said["loaded"].is_string() {
        return println!("skipped: NCCL is installed");
    }
    assert!(
        said["missing"].as_str().unwrap().starts_with("NCCL (libnccl, for several GPUs) could not be loaded"),
        "{said}"
    );
    assert!(said["hint"].as_str().unwrap().contains("SOFTDIFF_NCCL=/path/libnccl.so.2"), "{said}");
}

/// What training says that cannot begin.
fn refused(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let scratch = Scratch::new("nccl-refused");
    let run = scratch.path("run");
    let mut command = command(&[&["train", "quickstart", "--out", &run], arguments].concat());
    let output = command.envs(variables.iter().copied()).env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("hint: ") && !std::path::Path::new(&run).exists(), "{said}");
    said
}

#[test]
fn gpus_that_are_not_there_and_contradictions_are_refused() {
    refused(&["--gpus", "2"], &[]);
    assert!(refused(&["--gpus=2", "--device=cpu"], &[]).contains("--gpus 2 with --device cpu"));
    let place = [("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "localhost"), ("MASTER_PORT", "29500")];
    assert!(refused(&["--gpus=2"], &place).contains("under torchrun, which started 2 processes"));
    // Without GPUs MPI is needed.
    assert!(refused(&[], &place).contains("torchrun started 2 processes on CPUs"));
    assert!(refused(&[], &place[..2]).contains("MASTER_ADDR and MASTER_PORT"));
}
