//! `softdiff bench step`: the training step of NCSN++ as `softdiff train` runs it, on a GPU.

use super::gpu::{Benchmarked, GpuFlags, Repeated};
use crate::diagnostics::{Failure, Outcome};
use clap::{Args, ValueEnum};
use serde_json::json;
use softdiff::data::Dataset;
use softdiff::engine::Device;
use softdiff::engine::cuda::{CudaExecutor, NcclId, NcclRank};
use softdiff::engine::device::Record;
use softdiff::engine::ranks::{Ranks, Reduce};
use softdiff::engine::rng::Stream;
use softdiff::train::{ImageFeed, RunSpec, Stepper, Training};
use std::sync::Arc;
use std::time::Instant;

const EXAMPLE: &str = "\
Example: NCSN++ for CIFAR-10 at batch 128, beside PyTorch and JAX on the same GPU, and where the time goes.
  softdiff bench step --against torch,jax
  softdiff bench step --size 64 --profile

Example: the cost of exchanging gradients by NCCL, on one GPU.
  softdiff bench step --accumulate 2
  softdiff bench step --accumulate 2 --nccl";

/// Time the training step of NCSN++ (read images, corrupt, forward, backward, clip, Adam, EMA, record) on a GPU.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct BenchStep {
    #[command(flatten)]
    gpu: GpuFlags,
    /// Compute cheap results again for the gradients, to save memory.
    #[arg(long)]
    recompute: bool,
    /// Where the images come from: a data set on the GPU, as in training; one streamed from the host, as in training on a
    /// data set that is too large for the GPU; or one batch for all steps.
    #[arg(long, value_enum, default_value_t = Data::Kept)]
    data: Data,
    /// Parts of a batch, computed one after the other.
    #[arg(long, default_value_t = 1)]
    accumulate: usize,
    /// Exchange the gradients of the parts by NCCL, as between GPUs, with a communicator of one rank.
    #[arg(long)]
    nccl: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Data {
    Fixed,
    Kept,
    Streamed,
}

/// Images of the data set.
const IMAGES: usize = 20_000;

/// The step of a training run, and what its last update did.
struct TimedStep {
    stepper: Stepper,
    last: Option<Record>,
}

impl Repeated for TimedStep {
    fn again(&mut self, at: u64) -> Result<(), Failure> {
        Ok(self.stepper.run(at)?)
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.last = self.stepper.wait()?.pop();
        Ok(())
    }

    fn executor(&mut self) -> Result<&mut CudaExecutor, Failure> {
        self.stepper.learner().cuda().ok_or_else(|| Failure::new("this benchmark needs a GPU"))
    }
}

impl BenchStep {
    pub fn run(self, json: bool) -> Outcome {
        if self.nccl && self.accumulate < 2 {
            let failure = Failure::new("--nccl without --accumulate: a whole batch has no gradients to exchange");
            return Err(failure.hint("add --accumulate 2"));
        }
        let (begin, config, shape) = (Instant::now(), self.gpu.network()?, self.gpu.shape());
        let session = self.gpu.session()?;
        let sets = [format!("train.recompute={}", self.recompute), format!("train.accumulate={}", self.accumulate)];
        let recipe = self.gpu.recipe(&sets)?;
        let random = Stream { seed: 1, purpose: 0, step: 0 };
        let words = (0..(IMAGES * shape.len() / 16) as u64).flat_map(|block| random.block(block));
        let pixels = words.flat_map(u32::to_le_bytes).collect();
        let images = Dataset::new(shape.height, shape.width, shape.channels, pixels, None, vec![]);
        let prepared = Training::of(recipe).images(images).prepare()?;
        let ranks = match self.nccl {
            true => {
                let alone = Arc::new(NcclRank::join(&session, NcclId::new()?, 0, 1)?);
                Ranks::with_gpus(alone.clone(), alone, Reduce::Exact)
            }
            false => Ranks::default(),
        };
        let spec = RunSpec { precision: self.gpu.precision, ranks, ..prepared.spec()? };
        let step = spec.step()?;
        let state = spec.new_state(&step);
        let feed = match self.data {
            Data::Fixed => ImageFeed::Fixed,
            Data::Kept => ImageFeed::Dataset,
            Data::Streamed => ImageFeed::Streamed,
        };
        let device = Device::Cuda(session.clone());
        let stepper = Stepper::new(&spec, &step, (state.params, state.adam), &device, feed)?;
        let mut timed = TimedStep { stepper, last: None };
        let result = |timed: &TimedStep| {
            let last =
                timed.last.as_ref().ok_or_else(|| Failure::new("no step was timed").hint("give --steps 1 or more"))?;
            Ok(json!({ "loss": last.loss, "gradient_norm": last.norm }))
        };
        self.gpu.measure(
            Benchmarked { task: "step", begin, config: &config, session: &session },
            &mut timed,
            result,
            json,
        )
    }
}
