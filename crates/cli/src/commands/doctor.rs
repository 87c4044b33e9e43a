//! `softdiff doctor`: what this machine has, and whether it computes right.

mod machine;
mod ranks;

use super::device::DeviceFlag;
use crate::diagnostics::{Failure, Outcome};
use clap::Args;
use serde_json::{Value, json};
use softdiff::engine::cuda::{self, Session};
use softdiff::engine::{Check, Error, cpu};
use softdiff::run::StopRequest;
use std::sync::Arc;

const EXAMPLE: &str = "\
Example: see what was found, then compare every operation on the CPU with references, and on the GPU with the CPU.
  softdiff doctor
  softdiff doctor --self-test
  softdiff doctor --self-test --device cpu

Example: whether several processes can train together, and how fast they exchange gradients.
  mpirun -n 2 softdiff doctor --ranks";

/// Show what was found on this machine, which versions, and what is missing.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Doctor {
    #[command(flatten)]
    device: DeviceFlag,
    /// Compare every operation and its gradients: on the CPU with f64, differences and plain sums, on the GPU with the CPU.
    #[arg(long)]
    self_test: bool,
    /// Under mpirun, srun or torchrun: show the hosts, the GPUs and the libraries, and time the sums that training needs.
    #[arg(long, conflicts_with = "self_test")]
    ranks: bool,
}

impl Doctor {
    pub fn run(self, json: bool, stop: &StopRequest) -> Outcome {
        if self.ranks {
            return ranks::check(self.device.name(), json, stop);
        }
        let mut facts = json!({ "version": env!("CARGO_PKG_VERSION") });
        if !json {
            println!("softdiff {}", env!("CARGO_PKG_VERSION"));
        }
        machine::describe(&mut facts, json);
        let libraries = cuda::probe();
        facts["libraries"] = libraries.iter().map(library).collect::<Vec<Value>>().into();
        // Without a GPU, only what was found is worth a line.
        if !json && (cuda::has_driver() || libraries.iter().any(|library| library.outcome.is_ok())) {
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
                    if let Error::Device { hint, .. } = error {
                        println!("          hint: {hint}");
                    }
                }
            }
        }
        let failed = if self.self_test { self.test(session, &mut facts, json)? } else { 0 };
        if json {
            println!("{facts}");
        }
        if failed > 0 {
            let failure = Failure::new(format!("{failed} comparisons failed"));
            return Err(failure.hint(
                "update the driver and cuDNN; if that does not help, or if the CPU is wrong, report this output",
            ));
        }
        Ok(())
    }

    /// Tests the CPU, and the GPU where one is wanted and there, or asked for by name; says how many comparisons failed.
    fn test(&self, session: Result<Arc<Session>, Error>, facts: &mut Value, json: bool) -> Result<usize, Failure> {
        let session = match self.device.name() {
            "cpu" => None,
            "auto" => session.ok(),
            _ => Some(session?),
        };
        let cpu = ("cpu", cpu::self_test());
        let gpu = session.map(|session| ("gpu", cuda::self_test(&session)));
        let mut failed = 0;
        let mut all = Vec::new();
        for (device, checks) in [Some(cpu), gpu].into_iter().flatten() {
            failed += checks.iter().filter(|check| !check.passed()).count();
            if !json {
                print_checks(device, &checks);
            }
            all.extend(checks.iter().map(|check| describe(device, check)));
        }
        facts["self_test"] = all.into();
        Ok(failed)
    }
}

fn print_checks(device: &str, checks: &[Check]) {
    for check in checks {
        let verdict = if check.passed() { "ok  " } else { "FAIL" };
        let why = check.failure.as_deref().unwrap_or("");
        let precision = format!("{:?}", check.precision);
        println!(
            "{verdict} {device} {precision:<5} {:<56} {:>9.1e} (limit {:.0e}) {why}",
            check.name, check.error, check.limit
        );
    }
    let agree = checks.iter().filter(|check| check.passed()).count();
    println!("{device}: {agree} of {} comparisons agree", checks.len());
}

fn library(found: &cuda::LibraryProbe) -> Value {
    match &found.outcome {
        Ok(name) => json!({ "what": found.what, "loaded": name }),
        Err((problem, hint)) => json!({ "what": found.what, "missing": problem, "hint": hint }),
    }
}

fn describe(device: &str, check: &Check) -> Value {
    json!({
        "device": device, "name": check.name, "numbers": format!("{:?}", check.precision), "error": check.error, "limit": check.limit,
        "passed": check.passed(), "failure": check.failure,
    })
}
