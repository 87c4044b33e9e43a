//! `softdiff bench evaluate`: one prediction of NCSN++ on a GPU, as samplers ask for.

use super::gpu::{Benchmarked, GpuFlags};
use crate::diagnostics::Outcome;
use clap::Args;
use serde_json::json;
use softdiff::engine::cuda::{CudaExecutor, DeviceParams};
use softdiff::engine::rng::Stream;
use softdiff::engine::{Graph, Params};
use softdiff::network::unet;
use std::time::Instant;

const EXAMPLE: &str = "\
Example: one network evaluation for 128 images, beside PyTorch and JAX on the same GPU.
  softdiff bench evaluate --against torch,jax";

/// Time one network evaluation of NCSN++ on a GPU.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Evaluate {
    #[command(flatten)]
    gpu: GpuFlags,
}

impl Evaluate {
    pub fn run(self, json: bool) -> Outcome {
        let (begin, config, batch) = (Instant::now(), self.gpu.network()?, self.gpu.batch);
        let session = self.gpu.session()?;
        let mut g = Graph::new();
        let (size, channels) = (config.image_size, config.image_channels);
        let x = g.input("x", [batch, size, size, channels])?;
        let t = g.input("t", [batch])?;
        let sigma = g.input("sigma", [batch, 1, 1, 1])?;
        let condition = config.condition_on_time(&mut g, t)?;
        let net = unet(&mut g, &config, x, condition, false)?;
        let residual = g.mul(net.output, sigma)?;
        let clean = g.add(residual, x)?;
        let host = Params::<f32>::initialise(&g, 0);
        let params = DeviceParams::new(&session, &host)?;
        let mut run = CudaExecutor::new(&session, &g, &[clean], &params, self.gpu.precision, 0)?;
        let stream = Stream { seed: 1, purpose: 0, step: 0 };
        for (name, n, first) in [("x", batch * size * size * channels, 0), ("t", batch, 1 << 40)] {
            let mut values = vec![0.0; n];
            stream.fill_uniform(first, &mut values);
            run.set(name, &values)?;
        }
        run.set("sigma", &vec![0.1; batch])?;
        let result = |run: &CudaExecutor| {
            let values = run.get(clean)?;
            Ok(json!({ "mean": values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64 }))
        };
        let what = Benchmarked { task: "evaluate", begin, config: &config, session: &session };
        self.gpu.measure(what, &mut run, result, json)
    }
}
