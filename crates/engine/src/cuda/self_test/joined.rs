//! Convolutions in bf16 whose results are parts of joined channels, large enough to be fused with what follows them.

use super::{random, relative};
use crate::cuda::{DeviceParams, Executor, Numbers, Session};
use crate::op::Window;
use crate::params::to_bf16;
use crate::{Graph, Params, Plan, Precision, Result, cpu};
use std::f64::consts::FRAC_1_SQRT_2;
use std::sync::Arc;

/// Image, channels of the parts, and the window's width.
const CASES: [([usize; 4], [usize; 2], usize); 3] =
    [([4, 32, 32, 64], [64, 64], 3), ([8, 16, 16, 128], [256, 128], 3), ([4, 32, 32, 64], [64, 64], 1)];

/// The worst relative error over all cases.
pub(super) fn difference(session: &Arc<Session>) -> Result<f64> {
    let mut worst: f64 = 0.0;
    for (image, [first, second], taps) in CASES {
        let inputs = [
            ("x", image.to_vec()),
            ("w", vec![second, taps, taps, image[3]]),
            ("b", vec![second]),
            ("u", vec![second, taps, taps, second]),
            ("v", vec![first, 1, 1, second]),
            ("c", vec![first]),
        ];
        let mut g = Graph::new();
        let mut vars = Vec::new();
        for (name, shape) in &inputs {
            let var = g.input(name, &shape[..])?;
            vars.push(g.cast(var, if shape.len() == 4 { Precision::Half } else { Precision::Full })?);
        }
        let [x, w, b, u, v, c] = vars[..] else { continue };
        // The first skip is read as an image and as a residual; the second reads and writes among other channels.
        let skip = g.conv2d(x, w, Some(b), Window::same(taps))?;
        let next = g.residual_conv2d(skip, u, Some(b), skip, Window::same(taps), FRAC_1_SQRT_2)?;
        let low = g.conv2d(next, v, Some(c), Window::same(1))?;
        let high = g.conv2d(skip, v, Some(c), Window::same(1))?;
        let outputs = [g.concat(&[low, next])?, g.concat(&[high, skip])?];
        let mut host = cpu::Executor::<f64>::new(Plan::new(&g, &outputs)?);
        let on_device = DeviceParams::new(session, &Params::<f32>::zeros(&g))?;
        let mut device = Executor::new(session, &g, &outputs, &on_device, Numbers::Bf16, 0)?;
        for (purpose, ((name, _), &var)) in inputs.iter().zip(&vars).enumerate() {
            let round = |v: f32| f32::from_bits(u32::from(to_bf16(v)) << 16);
            let values: Vec<f32> = random(g.shape(var), purpose as u32, -1.0).into_iter().map(round).collect();
            host.set(name, &values.iter().map(|&v| f64::from(v)).collect::<Vec<_>>())?;
            device.set(name, &values)?;
        }
        host.run(&Params::<f64>::zeros(&g), 0, 0)?;
        // Eagerly, then as a graph.
        for _ in 0..2 {
            device.run(0)?;
            for var in outputs {
                let exact: Vec<f32> = host.get(var)?.iter().map(|&v| v as f32).collect();
                worst = worst.max(relative(&device.get(var)?, &exact));
            }
        }
    }
    Ok(worst)
}
