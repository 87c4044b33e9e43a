//! `softdiff bench step`: the whole Soft Diffusion training step of NCSN++ on a GPU.

use crate::diagnostics::Outcome;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use softdiff::engine::Params;
use softdiff::engine::cuda::{Adam, DeviceParams, Executor, Numbers, Session};
use softdiff::engine::optim::AdamConfig;
use softdiff::engine::rng::Stream;
use softdiff::network::UNetConfig;
use softdiff::train::{BlurPath, Noise, SoftStep};
use std::time::Instant;

const EXAMPLE: &str = "\
Example: NCSN++ for CIFAR-10 at batch 128, and where the time goes.
  softdiff bench step
  softdiff bench step --size 64 --profile";

/// Time the whole training step of NCSN++ (corrupt, forward, backward, clip, Adam, EMA) on a GPU.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Step {
    /// Side of the images: 32 is the CIFAR-10 network, 64 the CelebA one.
    #[arg(long, default_value = "32", value_parser = ["32", "64"])]
    size: String,
    /// Images per step.
    #[arg(long, default_value_t = 128)]
    batch: usize,
    /// How numbers are stored.
    #[arg(long, value_enum, default_value_t = Precision::Bf16)]
    precision: Precision,
    /// Timed steps.
    #[arg(long, default_value_t = 50)]
    steps: usize,
    /// Which GPU.
    #[arg(long, default_value_t = 0)]
    gpu: usize,
    /// Features of the first level, for smaller networks.
    #[arg(long)]
    channels: Option<usize>,
    /// Show the time of each kind of operation.
    #[arg(long)]
    profile: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Precision {
    Bf16,
    Tf32,
    F32,
}

impl Step {
    /// Runs the benchmark.
    pub fn run(self, json: bool) -> Outcome {
        let begin = Instant::now();
        let (mut config, path) = match self.size.as_str() {
            "64" => (UNetConfig::ncsnpp_celeba64(), BlurPath::geometric(23.0, 80)),
            _ => (UNetConfig::ncsnpp_cifar10(), BlurPath::geometric(18.0, 32)),
        };
        config.channels = self.channels.unwrap_or(config.channels);
        config.check()?;
        let numbers = match self.precision {
            Precision::Bf16 => Numbers::Bf16,
            Precision::Tf32 => Numbers::Tf32,
            Precision::F32 => Numbers::F32,
        };
        let session = Session::open(self.gpu)?;
        let step = SoftStep::new(&config, &path, self.batch, Noise::Drawn, true)?;
        let host = Params::<f32>::initialise(&step.graph, 0);
        let params = DeviceParams::new(&session, &host)?;
        let mut outputs = step.gradients.clone();
        outputs.push(step.loss);
        let mut run = Executor::new(&session, &step.graph, &outputs, &params, numbers, 0)?;
        let adam = Adam::attach(&session, &mut run, AdamConfig::default(), &host, &params, &step.gradients)?;
        let mut images = vec![0.0; self.batch * config.image_size * config.image_size * config.image_channels];
        Stream { seed: 1, purpose: 0, step: 0 }.fill_uniform(0, &mut images);
        run.set("x0", &images)?;
        for warm in 0..3 {
            run.run(warm)?;
        }
        run.synchronize()?;
        let started = begin.elapsed().as_secs_f64();
        let first_loss = run.get(step.loss)?[0];
        let timed = Instant::now();
        for at in 0..self.steps {
            run.run(3 + at as u32)?;
        }
        run.synchronize()?;
        let seconds = timed.elapsed().as_secs_f64() / self.steps as f64;
        let (loss, update) = (run.get(step.loss)?[0], adam.last()?);
        let flops = run.plan().flops() as f64;
        let (free, total) = session.device.memory()?;
        let mut facts = json!({
            "gpu": session.device.name, "size": config.image_size, "batch": self.batch, "numbers": format!("{numbers:?}"),
            "milliseconds": seconds * 1e3, "flops": flops, "tflops": flops / seconds * 1e-12,
            "planned_bytes": run.plan().arena_bytes(), "used_bytes": total - free, "seconds_to_steady": started,
            "loss": loss, "first_loss": first_loss, "gradient_norm": update.norm, "parameters": host.numel(),
        });
        if self.profile {
            let times = run.run_timed(9, 10)?;
            facts["profile"] = super::engine::profile(&times, json);
        }
        if json {
            println!("{facts}");
            return Ok(());
        }
        report(&facts);
        println!("{}", run.plan());
        Ok(())
    }
}

fn report(facts: &Value) {
    let number = |key: &str| facts[key].as_f64().unwrap_or(f64::NAN);
    println!("NCSN++ {0}x{0}, batch {1}, {2} on {3}", facts["size"], facts["batch"], facts["numbers"], facts["gpu"]);
    println!("  {:.2} ms/step, {:.0} TFLOP/s", number("milliseconds"), number("tflops"));
    println!(
        "  steady after {:.1} s; {:.2} GiB in use",
        number("seconds_to_steady"),
        number("used_bytes") / (1u64 << 30) as f64
    );
    println!(
        "  loss {:.1} (first {:.1}), gradient norm {:.1}",
        number("loss"),
        number("first_loss"),
        number("gradient_norm")
    );
}
