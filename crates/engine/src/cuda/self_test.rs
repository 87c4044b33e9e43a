//! The GPU against the CPU: every operation, its gradients, and the bits of the noise.

mod attention;
mod concat_elision;
mod conv_epilogue;
mod conv_f16x2;
mod exact;
mod learning;
mod rgb_conv;
mod shares;

use super::images::BatchShares;
use super::{CudaExecutor, DeviceParams, Session};
use crate::comparison::CaseGraph;
pub(crate) use crate::comparison::{Check, random, relative};
use crate::op_cases::{OP_CASES, OpCase};
use crate::rng::Draw;
use crate::shared_bytes::SharedBytes;
use crate::shuffle::Shuffled;
use crate::{Graph, Params, Plan, Precision, Result, cpu};
use std::sync::Arc;

/// Allowed relative error of f32 and of bf16 (eight bits of mantissa, a few operations deep).
fn limit(precision: Precision) -> f64 {
    match precision {
        Precision::F32 | Precision::F16x2 => 1e-4,
        Precision::Tf32 => 5e-3,
        Precision::Bf16 => 5e-2,
    }
}

/// Compares the GPU with the CPU on every case of [`OP_CASES`].
pub fn self_test(session: &Arc<Session>) -> Vec<Check> {
    let mut checks = Vec::new();
    for precision in [Precision::F32, Precision::Bf16] {
        for case in OP_CASES {
            checks.push(Check::new(case.name, precision, limit(precision), compare(session, case, precision)));
        }
    }
    let counted = |outcome: Result<(f64, usize)>, name: &dyn Fn(usize) -> String, limit: f64| {
        let failure = outcome.as_ref().err().map(|e| e.to_string());
        let (error, count) = outcome.unwrap_or((f64::NAN, 0));
        Check { name: name(count), precision: Precision::Bf16, error, limit, failure }
    };
    let cases = conv_epilogue::CASES.len();
    let name = |fused| format!("bias, residual and scale after convolutions, {fused} of {cases} in one kernel");
    checks.push(counted(conv_epilogue::difference(session), &name, 5e-3));
    let cases = attention::CASES.len();
    let name = |on_chip| format!("attention and its gradients, {on_chip} of {cases} on the chip");
    checks.push(counted(attention::difference(session), &name, 1e-2));
    type Test = fn(&Arc<Session>) -> Result<f64>;
    let exact: [(&str, Precision, f64, Test); 11] = [
        ("noise and dropout masks are bit-identical", Precision::F32, 0.0, noise_difference),
        ("convolutions with ReLU", Precision::F32, 1e-5, |session| conv_f16x2::difference(session, Precision::F32)),
        ("convolutions in pairs of f16 are as accurate as f32", Precision::F16x2, 2e-6, |session| {
            conv_f16x2::difference(session, Precision::F16x2)
        }),
        ("convolutions from and to RGB", Precision::Bf16, 5e-3, rgb_conv::difference),
        ("convolutions that write and read parts of concatenations", Precision::Bf16, 5e-3, concat_elision::difference),
        ("batches gathered on the device or streamed are bit-identical", Precision::F32, 0.0, order_difference),
        ("training gives the same bits again, and when resumed", Precision::Bf16, 0.0, learning::same_bits),
        ("halves of a batch make the update of the whole", Precision::Bf16, 1e-2, learning::parts_make_a_whole),
        ("a loss that is not finite touches no weight", Precision::Bf16, 0.0, learning::nonfinite_is_skipped),
        ("sums over shares of a batch are the CPU's, bit for bit", Precision::F32, 0.0, shares::order_difference),
        (shares::nccl_name(), Precision::Bf16, 0.0, shares::nccl_difference),
    ];
    checks.extend(
        exact.into_iter().map(|(name, precision, limit, test)| Check::new(name, precision, limit, test(session))),
    );
    checks
}

fn compare(session: &Arc<Session>, case: &OpCase, precision: Precision) -> Result<f64> {
    let CaseGraph { graph: g, inputs, outputs, .. } = CaseGraph::new(case, precision)?;
    let params = Params::<f32>::zeros(&g);
    let mut host = cpu::CpuExecutor::<f32>::new(Plan::new(&g, &outputs)?);
    let on_device = DeviceParams::new(session, &params)?;
    let mut device = CudaExecutor::new(session, &g, &outputs, &on_device, precision, 3)?;
    for (i, (name, shape)) in inputs.iter().enumerate() {
        let values = random(shape, i as u32, case.above);
        host.set(name, &values)?;
        device.set(name, &values)?;
    }
    host.run(&params, 3, 4)?;
    // Eagerly, then as a graph: both must agree.
    let mut worst: f64 = 0.0;
    for _ in 0..2 {
        device.run(4)?;
        for &var in &outputs {
            worst = worst.max(relative(&device.get(var)?, host.get(var)?));
        }
    }
    Ok(worst)
}

/// How many of the random numbers differ in any bit.
fn noise_difference(session: &Arc<Session>) -> Result<f64> {
    let mut g = Graph::new();
    let normal = g.random_normal([1000, 77], 5)?;
    let uniform = g.random_uniform([999], 6)?;
    let one = g.constant([40, 33], vec![1.0; 40 * 33])?;
    let mask = g.dropout(one, 0.3, 7)?;
    let few = g.constant([3, 11], vec![1.0; 33])?;
    let uneven = g.dropout(few, 0.3, 8)?;
    let place = g.place_in_batch([5])?;
    let outputs = [normal, uniform, mask, uneven, place];
    let params = Params::<f32>::zeros(&g);
    let mut host = cpu::CpuExecutor::<f32>::new(Plan::new(&g, &outputs)?);
    let on_device = DeviceParams::new(session, &params)?;
    let mut device = CudaExecutor::new(session, &g, &outputs, &on_device, Precision::F32, 123_456_789_012)?;
    device.divide(BatchShares { parts: 4, own: 4, first: 0 });
    let mut different = 0;
    for part in 0..4 {
        let draw = Draw { step: 77, part };
        host.run(&params, 123_456_789_012, draw)?;
        device.run(draw)?;
        for var in outputs {
            let found = device.get(var)?;
            different += found.iter().zip(host.get(var)?).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
        }
    }
    Ok(different as f64)
}

/// How many values of shuffled batches differ from the host's, over several epochs and from two runs on: of images that
/// are on the device, and of those that come in shards.
fn order_difference(session: &Arc<Session>) -> Result<f64> {
    let (batch, size, count, purpose) = (7, 5, 23, 0x6461);
    let mut g = Graph::new();
    let x = g.input("x", [batch, size])?;
    let y = g.scale(x, 1.0)?;
    let params = DeviceParams::new(session, &Params::<f32>::zeros(&g))?;
    let images: SharedBytes = (0..count * size).map(|i| (i * 37 % 256) as u8).collect::<Vec<u8>>().into();
    let order = Shuffled { image_size: size, seed: 99, purpose };
    let mut different = 0;
    for runs in [None, Some(1), Some(3)] {
        let mut device = CudaExecutor::new(session, &g, &[y], &params, Precision::F32, 0)?;
        match runs {
            None => device.keep("x", &images, &order)?,
            Some(runs) => device.stream_by("x", &images, &order, runs)?,
        }
        for run in (0..12).chain(5..20) {
            device.run(run)?;
            let found = device.get(y)?;
            for (slot, found) in found.chunks_exact(size).enumerate() {
                let chosen = order.at(u64::from(run) * batch as u64 + slot as u64, count as u64) as usize;
                let wanted = images[chosen * size..][..size].iter().map(|&v| f32::from(v) / 255.0);
                different += found.iter().zip(wanted).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
            }
        }
    }
    Ok(different as f64)
}
