//! `softdiff doctor`: what this machine has, and whether it computes right.

mod ranks;

use super::device::DeviceFlag;
use crate::diagnostics::{Failure, Outcome};
use clap::Args;
use serde_json::{Value, json};
use softdiff::engine::cpu::isa;
use softdiff::engine::cuda::{self, Session};
use softdiff::run::StopRequest;

const EXAMPLE: &str = "\
Example: see what was found, then compare every operation on the GPU with the CPU.
  softdiff doctor
  softdiff doctor --self-test

Example: whether several processes can train together, and how fast they exchange gradients.
  mpirun -n 2 softdiff doctor --ranks";

/// Show what was found on this machine, which versions, and what is missing.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Doctor {
    #[command(flatten)]
    device: DeviceFlag,
    /// Compare every operation and its gradients on the GPU with the CPU.
    #[arg(long)]
    self_test: bool,
    /// Under mpirun or srun: show the hosts and the MPI library, and time the sums that training needs.
    #[arg(long, conflicts_with = "self_test")]
    ranks: bool,
}

impl Doctor {
    pub fn run(self, json: bool, stop: &StopRequest) -> Outcome {
        if self.ranks {
            return ranks::check(json, stop);
        }
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let mut facts = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "cpu": { "threads": cores, "instructions": format!("{:?}", isa()) },
        });
        if !json {
            println!("softdiff {}", env!("CARGO_PKG_VERSION"));
            println!("cpu       {cores} threads, {:?}", isa());
        }
        let libraries = cuda::probe();
        facts["libraries"] = libraries.iter().map(library).collect::<Vec<Value>>().into();
        if !json && cuda::has_driver() {
            for found in &libraries {
                match &found.outcome {
                    Ok(name) => println!("library   {:<16} {name}", found.what),
                    Err((problem, hint)) => {
                        println!("library   {:<16} missing: {problem}\n          hint: {hint}", found.what)
                    }
                }
            }
        }
        let gpu = self.device.gpu();
        let session = Session::open(gpu);
        match &session {
            Ok(session) => {
                let device = &session.device;
                let (cudnn, cublas) = session.versions();
                let (free, total) = device.memory()?;
                let gib = |bytes: usize| bytes as f64 / (1u64 << 30) as f64;
                facts["gpu"] = json!({
                    "name": device.name, "number": device.ordinal, "capability": device.chip.capability,
                    "multiprocessors": device.multiprocessors, "driver": device.driver_version,
                    "cudnn": cudnn, "cublas": cublas, "free_bytes": free, "total_bytes": total,
                    "libraries": session.loaded(),
                });
                if !json {
                    let (major, minor) = device.chip.capability;
                    println!(
                        "gpu {}     {}, capability {major}.{minor}, {:.1} of {:.1} GiB free",
                        gpu,
                        device.name,
                        gib(free),
                        gib(total)
                    );
                    println!("          driver for CUDA {}, cuDNN {cudnn}, cuBLAS {cublas}", device.driver_version);
                }
            }
            Err(error) => {
                facts["gpu"] = json!({ "missing": error.to_string() });
                if !json {
                    println!("gpu {gpu}     none found: {error}");
                    if let softdiff::engine::Error::Device { hint, .. } = error {
                        println!("          hint: {hint}");
                    }
                }
            }
        }
        let mut failed = 0;
        if self.self_test {
            let checks = cuda::self_test(&session?);
            failed = checks.iter().filter(|c| !c.passed()).count();
            facts["self_test"] = checks.iter().map(describe).collect::<Vec<Value>>().into();
            if !json {
                for check in &checks {
                    let verdict = if check.passed() { "ok  " } else { "FAIL" };
                    let why = check.failure.as_deref().unwrap_or("");
                    println!(
                        "{verdict} {:<5} {:<48} {:>9.1e} (limit {:.0e}) {why}",
                        format!("{:?}", check.precision),
                        check.name,
                        check.error,
                        check.limit
                    );
                }
                println!("{} of {} comparisons agree", checks.len() - failed, checks.len());
            }
        }
        if json {
            println!("{facts}");
        }
        if failed > 0 {
            let failure = Failure::new(format!("{failed} comparisons of the GPU with the CPU failed"));
            return Err(
                failure.hint("update the driver and cuDNN; if that does not help, use the CPU and report this output")
            );
        }
        Ok(())
    }
}

fn library(found: &cuda::LibraryProbe) -> Value {
    match &found.outcome {
        Ok(name) => json!({ "what": found.what, "loaded": name }),
        Err((problem, hint)) => json!({ "what": found.what, "missing": problem, "hint": hint }),
    }
}

fn describe(check: &cuda::Check) -> Value {
    json!({
        "name": check.name, "numbers": format!("{:?}", check.precision), "error": check.error, "limit": check.limit,
        "passed": check.passed(), "failure": check.failure,
    })
}
