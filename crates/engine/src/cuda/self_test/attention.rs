//! Attention in bf16 at shapes that stay on the chip: the output and the gradients, and their bits again.

use super::{exact, relative};
use crate::cuda::compile;
use crate::cuda::select::{CompileTarget, Kernel};
use crate::cuda::{CudaExecutor, DeviceParams, Session};
use crate::{Graph, Params, Plan, Precision, Result, Storage, cpu};
use std::sync::Arc;

/// Images, tokens, channels and scale; the last does not fit.
pub(super) const CASES: [([usize; 3], f64); 10] = [
    ([3, 256, 256], 0.0625),
    ([140, 256, 256], 0.3),
    ([2, 256, 128], 0.2),
    ([2, 256, 64], -0.25),
    ([3, 200, 256], 0.125),
    ([2, 72, 64], 0.25),
    ([5, 64, 256], 0.125),
    ([3, 64, 128], 0.2),
    ([4, 16, 64], 0.25),
    ([2, 264, 64], 0.25),
];

/// The worst relative error over all cases, infinite if a second run gives other bits, and how many stay on the chip.
pub(super) fn difference(session: &Arc<Session>) -> Result<(f64, usize)> {
    let (mut worst, mut on_chip) = (0.0f64, 0);
    for (shape, scale) in CASES {
        let [n, tokens, channels] = shape;
        let inputs = [("qkv", vec![n, tokens, 3 * channels]), ("w", shape.to_vec())];
        let mut g = Graph::new();
        let vars = exact::inputs(&mut g, &inputs)?;
        let y = g.attention(vars[0], scale)?;
        let product = g.mul(y, vars[1])?;
        let product = g.cast(product, Storage::Full)?;
        let loss = g.sum(product)?;
        // Each of the three is judged by itself.
        let gradient = g.gradients(loss, &vars[..1])?[0];
        let mut outputs = Vec::new();
        for part in 0..3 {
            outputs.push(g.slice_channels(gradient, part * channels, channels)?);
        }
        outputs.push(y);
        let target = CompileTarget { precision: Precision::Bf16, chip: session.device.chip };
        let mut nodes = compile::order(&g, &outputs, target).into_iter();
        on_chip += usize::from(nodes.any(|selected| matches!(selected.kernel, Kernel::AttentionOnChip(_))));
        let mut host = cpu::CpuExecutor::<f32>::new(Plan::new(&g, &outputs)?);
        let on_device = DeviceParams::new(session, &Params::<f32>::zeros(&g))?;
        let mut device = CudaExecutor::new(session, &g, &outputs, &on_device, Precision::Bf16, 0)?;
        for (purpose, ((name, _), &var)) in inputs.iter().zip(&vars).enumerate() {
            let values = exact::values(&g, var, purpose, Precision::Bf16);
            host.set(name, &values)?;
            device.set(name, &values)?;
        }
        host.run(&Params::zeros(&g), 0, 0)?;
        let mut runs = Vec::new();
        // Eagerly, then as a graph.
        for _ in 0..2 {
            device.run(0)?;
            runs.push(outputs.iter().map(|&var| device.get(var)).collect::<Result<Vec<_>>>()?);
        }
        for (found, &var) in runs[0].iter().zip(&outputs) {
            worst = worst.max(relative(found, host.get(var)?));
        }
        if runs[0] != runs[1] {
            worst = f64::INFINITY;
        }
    }
    Ok((worst, on_chip))
}
