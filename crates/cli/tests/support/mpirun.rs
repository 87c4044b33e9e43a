//! Commands under the real `mpirun` of Open MPI and MPICH, where they are installed.

use super::text;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The launchers that are here.
pub fn launchers() -> Vec<&'static str> {
    let is_here = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let found: Vec<_> = ["mpirun.openmpi", "mpirun.mpich"].into_iter().filter(is_here).collect();
    if found.is_empty() {
        println!("skipped: neither mpirun.openmpi nor mpirun.mpich is installed");
    }
    found
}

/// A command in `ranks` processes on this machine.
pub fn mpirun(launcher: &str, ranks: usize, arguments: &[&str]) -> Command {
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
pub fn ended(mut child: Child, within: Duration) -> Output {
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

/// A command that must succeed.
pub fn succeed(mut command: Command) -> Output {
    let output = ended(command.spawn().unwrap(), Duration::from_secs(120));
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    output
}

/// The process of a rank of which `argument` is an argument, once the work has begun.
pub fn process_of(rank: usize, argument: &str, has_begun: &dyn Fn() -> bool) -> u32 {
    let begun = Instant::now();
    loop {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let found = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).find(|number| {
            let read = |file: &str| std::fs::read(format!("/proc/{number}/{file}")).unwrap_or_default();
            let has = |bytes: Vec<u8>, word: String| bytes.split(|&byte| byte == 0).any(|part| part == word.as_bytes());
            let is_softdiff = read("comm").starts_with(b"softdiff");
            let names = ["OMPI_COMM_WORLD_RANK", "PMI_RANK"];
            let is_rank = names.iter().any(|name| has(read("environ"), format!("{name}={rank}")));
            is_softdiff && is_rank && has(read("cmdline"), argument.to_owned())
        });
        match found {
            Some(number) if has_begun() => return number,
            _ => assert!(begun.elapsed() < Duration::from_secs(60), "rank {rank} did not begin"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal.
pub fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

/// Kills or stops rank 1 of two that work on `argument`, and gives what they said; rank 0 must end within 15 s and name it.
pub fn lose_rank_1(launcher: &str, child: Child, argument: &str, has_begun: &dyn Fn() -> bool) -> String {
    let [other, lost] = [0, 1].map(|rank| process_of(rank, argument, has_begun));
    let begun = Instant::now();
    let words = if launcher == "mpirun.openmpi" {
        signal("-KILL", lost);
        "rank 1 on"
    } else {
        // MPICH's launcher ends the others itself where one dies.
        signal("-STOP", lost);
        while std::path::Path::new(&format!("/proc/{other}")).exists() && begun.elapsed() < Duration::from_secs(15) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let state = std::fs::read_to_string(format!("/proc/{other}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z"), "rank 0 went on: {state}");
        // A launcher that waits for the stopped one must see it go on; another has killed it by then.
        let _ = Command::new("kill").args(["-CONT", &lost.to_string()]).status();
        "has not answered for 10 s"
    };
    let output = ended(child, Duration::from_secs(20));
    let said = text(&output.stderr) + &text(&output.stdout);
    assert!(said.contains(words) && said.contains("start all ranks again"), "{said}");
    assert!(!output.status.success());
    said
}
