//! `softdiff bench step`: the whole Soft Diffusion training step of NCSN++ on a GPU.

use super::gpu::{GpuFlags, Prepared};
use crate::diagnostics::Outcome;
use clap::{Args, ValueEnum};
use serde_json::json;
use softdiff::engine::Params;
use softdiff::engine::cuda::{CudaExecutor, DeviceAdam, DeviceParams};
use softdiff::engine::optim::AdamConfig;
use softdiff::engine::rng::Stream;
use softdiff::engine::shuffle::Shuffled;
use softdiff::train::{BlurPath, Noise, SoftStep};
use std::sync::Arc;
use std::time::Instant;

const EXAMPLE: &str = "\
Example: NCSN++ for CIFAR-10 at batch 128, beside PyTorch and JAX on the same GPU, and where the time goes.
  softdiff bench step --against torch,jax
  softdiff bench step --size 64 --profile";

/// Time the whole training step of NCSN++ (corrupt, forward, backward, clip, Adam, EMA) on a GPU.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Step {
    #[command(flatten)]
    gpu: GpuFlags,
    /// Compute cheap results again for the gradients, to save memory.
    #[arg(long)]
    recompute: bool,
    /// Where the images come from: one batch for all runs, a data set on the GPU, or one streamed from the host.
    #[arg(long, value_enum, default_value_t = Data::Fixed)]
    data: Data,
}

#[derive(Clone, Copy, ValueEnum)]
enum Data {
    Fixed,
    Kept,
    Streamed,
}

/// Images of the data sets.
const IMAGES: usize = 20_000;

impl Step {
    /// Runs the benchmark.
    pub fn run(self, json: bool) -> Outcome {
        let (begin, config) = (Instant::now(), self.gpu.network()?);
        let path = match config.image_size {
            64 => BlurPath::geometric(23.0, 80),
            _ => BlurPath::geometric(18.0, 32),
        };
        let session = self.gpu.session()?;
        let step = SoftStep::new(&config, &path, self.gpu.batch, Noise::Drawn, true, self.recompute)?;
        let host = Params::<f32>::initialise(&step.graph, 0);
        let params = DeviceParams::new(&session, &host)?;
        let mut outputs = step.gradients.clone();
        outputs.push(step.loss);
        let mut run = CudaExecutor::new(&session, &step.graph, &outputs, &params, self.gpu.precision, 0)?;
        let adam = DeviceAdam::attach(&session, &mut run, AdamConfig::default(), &host, &params, &step.gradients)?;
        let picture_size = config.image_size * config.image_size * config.image_channels;
        let numbers = Stream { seed: 1, purpose: 0, step: 0 };
        let pictures = || {
            let words = (0..(IMAGES * picture_size / 16) as u64).flat_map(|block| numbers.block(block));
            Arc::new(words.flat_map(u32::to_le_bytes).collect::<Vec<u8>>())
        };
        let order = Shuffled { image_size: picture_size, seed: 1, purpose: 1 };
        match self.data {
            Data::Fixed => {
                let mut images = vec![0.0; self.gpu.batch * picture_size];
                numbers.fill_uniform(0, &mut images);
                run.set("x0", &images)?;
            }
            Data::Kept => run.keep("x0", &pictures(), &order)?,
            Data::Streamed => run.stream("x0", &pictures(), &order)?,
        }
        let result =
            |run: &CudaExecutor| Ok(json!({ "loss": run.get(step.loss)?[0], "gradient_norm": adam.last()?.norm }));
        self.gpu.measure("step", Prepared { begin, config: &config, session: &session }, &mut run, result, json)
    }
}
