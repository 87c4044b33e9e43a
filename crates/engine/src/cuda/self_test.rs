//! The GPU against the CPU: every operation, its gradients, and the bits of the noise.

mod attention;
mod concat_elision;
mod conv_epilogue;
mod conv_f16x2;
mod exact;
mod learning;
mod rgb_conv;

use super::{CudaExecutor, DeviceParams, Session};
use crate::op_cases::OP_CASES;
use crate::rng::{Draw, Stream};
use crate::shared_bytes::SharedBytes;
use crate::shuffle::Shuffled;
use crate::{Graph, Params, Plan, Precision, Result, Storage, TensorShape, Var, cpu};
use std::sync::Arc;

/// One comparison.
#[derive(Clone, Debug)]
pub struct Check {
    /// What was compared.
    pub name: String,
    /// The precision.
    pub precision: Precision,
    /// The worst relative error (Euclidean), over outputs and gradients.
    pub error: f64,
    /// The largest error allowed.
    pub limit: f64,
    /// Why it could not be compared at all.
    pub failure: Option<String>,
}

impl Check {
    /// Whether the numbers agree.
    pub fn passed(&self) -> bool {
        self.failure.is_none() && self.error <= self.limit
    }
}

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
        for example in OP_CASES {
            let shapes: Vec<TensorShape> = example.inputs.iter().map(|&s| s.into()).collect();
            let outcome = compare(session, &shapes, example.above, example.build, precision);
            let (error, failure) = match outcome {
                Ok(error) => (error, None),
                Err(error) => (f64::NAN, Some(error.to_string())),
            };
            checks.push(Check { name: example.name.into(), precision, error, limit: limit(precision), failure });
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
    let exact: [(&str, Precision, f64, Test); 9] = [
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
    ];
    for (name, precision, limit, test) in exact {
        let error = test(session);
        let failure = error.as_ref().err().map(|e| e.to_string());
        let error = error.unwrap_or(f64::NAN);
        checks.push(Check { name: name.into(), precision, error, limit, failure });
    }
    checks
}

fn random(shape: &TensorShape, purpose: u32, low: f64) -> Vec<f32> {
    let stream = Stream { seed: 1, purpose, step: 0 };
    (0..shape.numel()).map(|i| (low + 2.0 * f64::from(stream.uniform(i as u64))) as f32).collect()
}

fn compare(
    session: &Arc<Session>,
    inputs: &[TensorShape],
    above: f64,
    build: fn(&mut Graph, &[Var]) -> Result<Var>,
    precision: Precision,
) -> Result<f64> {
    let mut g = Graph::new();
    let names: Vec<String> = (0..inputs.len()).map(|i| format!("x{i}")).collect();
    let mut vars = Vec::new();
    for (name, shape) in names.iter().zip(inputs) {
        let x = g.input(name, shape.clone())?;
        // Images, weights and sequences in 16 bits; vectors and tables stay.
        let half = precision == Precision::Bf16 && shape.len() >= 3;
        vars.push(g.cast(x, if half { Storage::Half } else { Storage::Full })?);
    }
    let out = build(&mut g, &vars)?;
    let out = g.cast(out, Storage::Full)?;
    let shape = g.shape(out).clone();
    let projection = random(&shape, 99, -1.0).into_iter().map(f64::from).collect();
    let projection = g.constant(shape, projection)?;
    let product = g.mul(out, projection)?;
    let loss = g.sum(product)?;
    let mut outputs = g.gradients(loss, &vars)?;
    outputs.push(out);
    let params = Params::<f32>::zeros(&g);
    let mut host = cpu::CpuExecutor::<f32>::new(Plan::new(&g, &outputs)?);
    let on_device = DeviceParams::new(session, &params)?;
    let mut device = CudaExecutor::new(session, &g, &outputs, &on_device, precision, 3)?;
    for (i, (name, shape)) in names.iter().zip(inputs).enumerate() {
        let values = random(shape, i as u32, above);
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

/// ||a - b|| / ||b||; a NaN anywhere is infinitely wrong.
pub(crate) fn relative(a: &[f32], b: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let error: f64 = a.iter().zip(b).map(|(&a, &b)| square(f64::from(a) - f64::from(b))).sum();
    let norm: f64 = b.iter().map(|&b| square(f64::from(b))).sum();
    let relative = (error / norm.max(1e-30)).sqrt();
    if relative.is_nan() || a.len() != b.len() { f64::INFINITY } else { relative }
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
    device.divide(4);
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
