//! Convolutions from and to colours, with their gradients.

use super::{random, relative};
use crate::cuda::{DeviceParams, Executor, Numbers, Session};
use crate::op::Window;
use crate::params::to_bf16;
use crate::{Graph, Params, Plan, Precision, Result, cpu};
use std::sync::Arc;

/// Image, weight, stride, padding, and whether there is a residual and a scale.
type Case = ([usize; 4], [usize; 4], usize, usize, bool);

const CASES: [Case; 7] = [
    ([2, 32, 32, 3], [128, 3, 3, 3], 1, 1, false),
    ([2, 32, 32, 128], [3, 3, 3, 128], 1, 1, false),
    ([3, 33, 33, 3], [128, 3, 3, 3], 2, 0, true),
    // Strips that are not full; one colour, two, and blocks of the wide image's channels.
    ([1, 19, 16, 1], [64, 3, 3, 1], 1, 1, true),
    ([2, 9, 48, 192], [2, 3, 3, 192], 1, 1, true),
    // More strips than there are parts of the sums for the weights.
    ([150, 5, 16, 3], [64, 3, 3, 3], 1, 1, false),
    ([150, 5, 16, 64], [3, 3, 3, 64], 1, 1, false),
];

/// Numbers that bf16 holds, so that only results are rounded.
fn rounded(values: Vec<f32>) -> Vec<f32> {
    values.into_iter().map(|v| f32::from_bits(u32::from(to_bf16(v)) << 16)).collect()
}

/// The worst relative error over all cases, of results and gradients.
pub(super) fn difference(session: &Arc<Session>) -> Result<f64> {
    let mut worst: f64 = 0.0;
    for (image, weight, stride, pad, residual) in CASES {
        let window = Window { stride: [stride; 2], pad: [pad; 2] };
        let side = |size: usize| (size + 2 * pad - 3) / stride + 1;
        let output = vec![image[0], side(image[1]), side(image[2]), weight[0]];
        let inputs = [
            ("x", image.to_vec()),
            ("w", weight.to_vec()),
            ("r", output.clone()),
            ("d", output),
            ("b", vec![weight[0]]),
        ];
        let mut g = Graph::new();
        let mut vars = Vec::new();
        for (name, shape) in &inputs {
            let var = g.input(name, &shape[..])?;
            vars.push(g.cast(var, if shape.len() == 4 { Precision::Half } else { Precision::Full })?);
        }
        let [x, w, r, d, b] = vars[..] else { continue };
        let y = if residual {
            g.residual_conv2d(x, w, Some(b), r, window, 0.7)?
        } else {
            let y = g.conv2d(x, w, Some(b), window)?;
            g.add(y, r)?
        };
        let product = g.mul(y, d)?;
        let product = g.cast(product, Precision::Full)?;
        let loss = g.sum(product)?;
        let mut outputs = g.gradients(loss, &[x, w])?;
        outputs.push(y);
        let mut host = cpu::Executor::<f64>::new(Plan::new(&g, &outputs)?);
        let on_device = DeviceParams::new(session, &Params::<f32>::zeros(&g))?;
        let mut device = Executor::new(session, &g, &outputs, &on_device, Numbers::Bf16, 0)?;
        for (purpose, ((name, _), &var)) in inputs.iter().zip(&vars).enumerate() {
            let values = rounded(random(g.shape(var), purpose as u32, -1.0));
            host.set(name, &values.iter().map(|&v| f64::from(v)).collect::<Vec<_>>())?;
            device.set(name, &values)?;
        }
        host.run(&Params::<f64>::zeros(&g), 0, 0)?;
        // Eagerly, then as a graph.
        for _ in 0..2 {
            device.run(0)?;
            for &var in &outputs {
                let exact: Vec<f32> = host.get(var)?.iter().map(|&v| v as f32).collect();
                worst = worst.max(relative(&device.get(var)?, &exact));
            }
        }
    }
    Ok(worst)
}
