//! What the benchmarks on a GPU share: flags, the timing loop, the report.

use super::rival::{Floor, RivalFlags, TimedTask, table};
use crate::commands::device::DeviceFlag;
use crate::diagnostics::{Failure, Outcome};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use softdiff::engine::Device;
use softdiff::engine::cuda::{Executor, Numbers, Session};
use softdiff::network::UNetConfig;
use std::sync::Arc;
use std::time::Instant;

/// Which network, how often, where.
#[derive(Args)]
pub struct GpuFlags {
    /// Side of the images: 32 is the CIFAR-10 network, 64 the CelebA one.
    #[arg(long, default_value = "32", value_parser = ["32", "64"])]
    size: String,
    /// Images per run.
    #[arg(long, default_value_t = 128)]
    pub batch: usize,
    /// How numbers are stored.
    #[arg(long, value_enum, default_value_t = Precision::Bf16)]
    precision: Precision,
    /// Timed runs.
    #[arg(long, default_value_t = 50)]
    steps: usize,
    #[command(flatten)]
    device: DeviceFlag,
    /// Features of the first level, for smaller networks.
    #[arg(long)]
    channels: Option<usize>,
    /// Show the time of each kind of operation.
    #[arg(long)]
    profile: bool,
    #[command(flatten)]
    rivals: RivalFlags,
}

/// What was made before the timing.
pub struct Prepared<'a> {
    /// When the program began to prepare.
    pub begin: Instant,
    /// The network.
    pub config: &'a UNetConfig,
    /// The GPU.
    pub session: &'a Arc<Session>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Precision {
    Bf16,
    Tf32,
    F32,
}

impl GpuFlags {
    /// The network.
    pub fn network(&self) -> Result<UNetConfig, Failure> {
        let mut config = match self.size.as_str() {
            "64" => UNetConfig::ncsnpp_celeba64(),
            _ => UNetConfig::ncsnpp_cifar10(),
        };
        config.channels = self.channels.unwrap_or(config.channels);
        config.check()?;
        Ok(config)
    }

    /// The GPU.
    pub fn session(&self) -> Result<Arc<Session>, Failure> {
        match self.device.open()? {
            Device::Cuda(session) => Ok(session),
            Device::Cpu => Err(Failure::new("this benchmark needs a GPU, and none was found")
                .hint("softdiff doctor tells what is missing; softdiff bench engine measures the CPU")),
        }
    }

    /// How numbers are stored.
    pub fn numbers(&self) -> Numbers {
        match self.precision {
            Precision::Bf16 => Numbers::Bf16,
            Precision::Tf32 => Numbers::Tf32,
            Precision::F32 => Numbers::F32,
        }
    }

    /// Times `run`, then the peers, and reports.
    pub fn measure(
        &self,
        task: &'static str,
        Prepared { begin, config, session }: Prepared,
        run: &mut Executor,
        mut extra: impl FnMut(&Executor) -> Result<Value, Failure>,
        json: bool,
    ) -> Outcome {
        for warm in 0..3 {
            run.run(warm)?;
        }
        run.synchronize()?;
        let ready = begin.elapsed().as_secs_f64();
        let timed = Instant::now();
        for at in 0..self.steps {
            run.run(3 + at as u32)?;
        }
        run.synchronize()?;
        let seconds = timed.elapsed().as_secs_f64() / self.steps.max(1) as f64;
        let (flops, bytes) = (run.plan().flops() as f64, run.plan().bytes() as f64);
        let (free, total) = session.device.memory()?;
        let mut facts = json!({
            "gpu": session.device.name, "task": task, "size": config.image_size, "batch": self.batch,
            "numbers": format!("{:?}", self.numbers()), "milliseconds": seconds * 1e3, "flops": flops,
            "tflops": flops / seconds * 1e-12, "planned_bytes": run.plan().arena_bytes(), "used_bytes": total - free,
            "seconds_to_steady": ready, "result": extra(run)?,
        });
        if !json {
            println!(
                "NCSN++ {0}x{0}, batch {1}, {2} on {3}",
                config.image_size, self.batch, facts["numbers"], facts["gpu"]
            );
            println!("  {task}: {}", facts["result"]);
        }
        if self.profile {
            facts["profile"] = super::engine::profile(&run.run_timed(9, 10)?, json);
        }
        let (peak_flops, peak_bytes) = session.ceilings()?;
        let floor = Floor { flops, bytes, peak_flops, peak_bytes };
        facts["floor"] = floor.facts();
        let (size, channels, blocks) = (config.image_size, config.channels, config.blocks);
        let rivals = self.rivals.run(&TimedTask { task, size, batch: self.batch, steps: self.steps, channels, blocks });
        if json {
            facts["rivals"] = rivals.into();
            println!("{facts}");
        } else {
            table(&facts, &rivals, &floor);
            if self.profile {
                println!("{}", run.plan());
            }
        }
        Ok(())
    }
}
