//! What the benchmarks on a GPU share: flags, the timing loop, the report.

use super::rival::{Floor, RivalFlags, TimedTask, table};
use crate::commands::device::DeviceFlag;
use crate::commands::steps::steps;
use crate::diagnostics::{Failure, Outcome};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};
use softdiff::corruption::Shape;
use softdiff::engine::cuda::{CudaExecutor, Session};
use softdiff::engine::{Device, Precision};
use softdiff::network::UNetConfig;
use softdiff::recipe::Recipe;
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
    #[arg(long, default_value = "bf16", value_parser = PossibleValuesParser::new(["bf16", "tf32", "f32"]).map(|name| precision(&name)))]
    pub precision: Precision,
    /// Timed runs.
    #[arg(long, default_value_t = 50, value_parser = steps())]
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

/// What is timed.
pub struct Benchmarked<'a> {
    pub task: &'static str,
    /// When the program began to prepare.
    pub begin: Instant,
    pub config: &'a UNetConfig,
    pub session: &'a Arc<Session>,
}

/// Work that is done again and again on a GPU, which runs ahead of the host.
pub trait Repeated {
    /// Does it the `at`-th time.
    fn again(&mut self, at: u64) -> Result<(), Failure>;

    /// Waits until all is done.
    fn finish(&mut self) -> Result<(), Failure>;

    /// What runs it.
    fn executor(&mut self) -> Result<&mut CudaExecutor, Failure>;
}

impl Repeated for CudaExecutor {
    fn again(&mut self, at: u64) -> Result<(), Failure> {
        Ok(self.run(at as u32)?)
    }

    fn finish(&mut self) -> Result<(), Failure> {
        Ok(self.synchronize()?)
    }

    fn executor(&mut self) -> Result<&mut CudaExecutor, Failure> {
        Ok(self)
    }
}

/// A precision by its name among the possible values.
fn precision(name: &str) -> Precision {
    match name {
        "tf32" => Precision::Tf32,
        "f32" => Precision::F32,
        _ => Precision::Bf16,
    }
}

impl GpuFlags {
    pub fn network(&self) -> Result<UNetConfig, Failure> {
        Ok(self.recipe(&[])?.network(self.shape())?)
    }

    /// The images.
    pub fn shape(&self) -> Shape {
        let side = if self.size == "64" { 64 } else { 32 };
        Shape::new(side, side, 3)
    }

    /// The paper's recipe for images of this size, with levels that need no images to be measured.
    pub fn recipe(&self, sets: &[String]) -> Result<Recipe, Failure> {
        let name = if self.size == "64" { "celeba64-blur" } else { "cifar10-blur" };
        let mut all =
            vec!["schedule=".into(), "schedule.method=even".into(), "prior=".into(), "prior.kind=noise".into()];
        all.extend(self.channels.map(|channels| format!("network.channels={channels}")));
        all.push(format!("train.batch={}", self.batch));
        all.extend_from_slice(sets);
        Ok(Recipe::builtin(name, &all)?)
    }
    pub fn session(&self) -> Result<Arc<Session>, Failure> {
        match self.device.open()? {
            Device::Cuda(session) => Ok(session),
            Device::Cpu => Err(Failure::new("this benchmark needs a GPU, and none was found")
                .hint("softdiff doctor tells what is missing; softdiff bench engine measures the CPU")),
        }
    }

    /// Times `run`, then the peers, and reports.
    pub fn measure<R: Repeated>(
        &self,
        Benchmarked { task, begin, config, session }: Benchmarked,
        work: &mut R,
        mut extra: impl FnMut(&R) -> Result<Value, Failure>,
        json: bool,
    ) -> Outcome {
        for warm in 0..3 {
            work.again(warm)?;
        }
        work.finish()?;
        let ready = begin.elapsed().as_secs_f64();
        let timed = Instant::now();
        for at in 0..self.steps {
            work.again(3 + at as u64)?;
        }
        work.finish()?;
        let seconds = timed.elapsed().as_secs_f64() / self.steps.max(1) as f64;
        let result = extra(work)?;
        let run = work.executor()?;
        let (flops, bytes) = (run.plan().flops() as f64, run.plan().bytes() as f64);
        let (free, total) = session.device.memory()?;
        let mut facts = json!({
            "gpu": session.device.name, "task": task, "size": config.image_size, "batch": self.batch,
            "numbers": format!("{:?}", self.precision), "milliseconds": seconds * 1e3, "flops": flops,
            "tflops": flops / seconds * 1e-12, "planned_bytes": run.plan().arena_bytes(), "used_bytes": total - free,
            "seconds_to_steady": ready, "result": result,
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
        let (peak_flops, peak_bytes) = session.roofline()?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        gpu: GpuFlags,
    }

    #[test]
    fn the_benchmarks_run_the_papers_networks_and_recipes() {
        let flags = |size: &str| Flags::parse_from(["bench", "--size", size, "--batch", "64"]).gpu;
        assert_eq!(flags("32").network().unwrap(), UNetConfig::ncsnpp_cifar10());
        assert_eq!(flags("64").network().unwrap(), UNetConfig::ncsnpp_celeba64());
        let recipe = flags("32").recipe(&["train.recompute=true".into()]).unwrap();
        assert_eq!((recipe.train.batch, recipe.train.recompute, recipe.data.mirror), (64, true, true));
        // No images are measured for it.
        let path = recipe.path(flags("32").shape(), None).unwrap();
        assert_eq!((path.level(1.0).unwrap(), path.sigma(1.0)), (18.0, 0.1));
    }
}
