//! Sums over the shares of a batch: in the order of the CPU, and the same when NCCL carries them.

use super::learning::{learner, train};
use crate::cuda::nccl::Nccl;
use crate::cuda::{NcclId, NcclRank, Session};
use crate::device::{Device, Learner, LearnerSpec, LossOutputs};
use crate::optim::{Adam, AdamConfig};
use crate::ranks::{Communicator, Ranks, Reduce};
use crate::rng::Stream;
use crate::{Graph, Init, Params, Precision, Result};
use std::sync::Arc;

/// More than a block's part, and no multiple of anything.
const LENGTH: usize = 40_003;

/// Adds the gradients of `shares` shares, which are the inputs; the sum becomes Adam's first moment.
fn sum(device: &Device, shares: u64) -> Result<Vec<f32>> {
    let mut g = Graph::new();
    let x = g.input("x", [LENGTH])?;
    let w = g.param("w", [LENGTH], Init::Constant(0.0))?;
    let y = g.mul(x, w)?;
    let loss = g.sum(y)?;
    let (losses, times) = (g.reshape(loss, [1])?, g.random_uniform([1], 1)?);
    let gradients = g.parameter_gradients(loss)?;
    let params = Params::initialise(&g, 0);
    let config = AdamConfig { beta1: 0.0, warmup: 0, clip: None, ema: vec![], ..AdamConfig::default() };
    let (adam, ranks) = (Adam::new(config, &params), Ranks::default());
    let objective = LossOutputs { loss, losses, times, gradients: &gradients };
    let (precision, seed, accumulate) = (Precision::F32, 0, shares);
    let spec = LearnerSpec { graph: &g, objective, params, adam, precision, seed, accumulate, ranks };
    let mut learner = Learner::new(device, spec)?;
    for share in 0..shares {
        // Numbers of very different sizes, whose sum depends on the order.
        let stream = Stream { seed: 1, purpose: 2, step: share as u32 };
        let value = |i: u64| stream.normal(2 * i) * (4.0 * stream.normal(2 * i + 1)).exp();
        learner.set("x", &(0..LENGTH as u64).map(value).collect::<Vec<_>>())?;
        learner.run(share)?;
    }
    learner.records()?;
    Ok(learner.state()?.1.first.concat())
}

/// How many sums differ from the CPU's in any bit.
pub(super) fn order_difference(session: &Arc<Session>) -> Result<f64> {
    let mut different = 0;
    for shares in [2, 3, 8, 12, 13] {
        let (found, wanted) = (sum(&Device::Cuda(session.clone()), shares)?, sum(&Device::Cpu, shares)?);
        different += found.iter().zip(&wanted).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    }
    Ok(different as f64)
}

/// What the comparison with NCCL is called: without the library it compares nothing.
pub(super) fn nccl_name() -> &'static str {
    match Nccl::recent() {
        Ok(_) => "a step with a rank of NCCL gives the bits of one without",
        Err(_) => "a step with a rank of NCCL (skipped: there is no NCCL)",
    }
}

/// How many trainings with a communicator of one rank differ from that without.
pub(super) fn nccl_difference(session: &Arc<Session>) -> Result<f64> {
    if Nccl::recent().is_err() {
        return Ok(0.0);
    }
    let gpu = Arc::new(NcclRank::join(session, NcclId::new()?, 0, 1)?);
    // Enough that both graphs are launched more than once.
    let trained = |ranks: Ranks| -> Result<_> {
        let mut learner = learner(session, None, 4, 4, false, ranks)?;
        train(&mut learner, 4, 0..16)?;
        Ok((learner.records()?, learner.state()?))
    };
    let wanted = trained(Ranks::default())?;
    let mut different = 0;
    for reduce in [Reduce::Exact, Reduce::Fast] {
        different += usize::from(trained(Ranks::with_gpus(gpu.clone(), gpu.clone(), reduce))? != wanted);
    }
    gpu.finish();
    Ok(different as f64)
}
