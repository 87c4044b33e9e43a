//! Convolutions in bf16 with what follows them, large enough to be fused where that is faster.

use super::exact;
use crate::cuda::Session;
use crate::op::Window;
use crate::{Graph, Precision, Result};
use std::f64::consts::FRAC_1_SQRT_2;
use std::sync::Arc;

/// Image, weight, stride, padding, whether there is a residual, and the scale.
type EpilogueCase = ([usize; 4], [usize; 4], usize, usize, bool, f64);

pub(super) const CASES: [EpilogueCase; 8] = [
    ([4, 32, 32, 64], [64, 3, 3, 64], 1, 1, false, 1.0),
    ([4, 32, 32, 64], [64, 3, 3, 64], 1, 1, true, 1.0),
    ([4, 32, 32, 64], [64, 3, 3, 64], 1, 1, true, FRAC_1_SQRT_2),
    ([8, 16, 16, 256], [256, 1, 1, 256], 1, 0, false, 1.0),
    ([8, 16, 16, 256], [256, 1, 1, 256], 1, 0, true, FRAC_1_SQRT_2),
    ([8, 16, 16, 128], [256, 3, 3, 128], 1, 1, true, FRAC_1_SQRT_2),
    ([8, 33, 33, 64], [128, 3, 3, 64], 2, 0, true, FRAC_1_SQRT_2),
    // Filters that do not fill a tile.
    ([4, 32, 32, 24], [72, 3, 3, 24], 1, 1, true, FRAC_1_SQRT_2),
];

/// The worst relative error over all cases, and how many of them ran in one kernel.
pub(super) fn difference(session: &Arc<Session>) -> Result<(f64, usize)> {
    let before = session.lock().cudnn.fused();
    let mut worst: f64 = 0.0;
    for (image, weight, stride, pad, residual, scale) in CASES {
        let window = Window { stride: [stride; 2], pad: [pad; 2] };
        let side = (image[1] + 2 * pad - weight[1]) / stride + 1;
        let output = vec![image[0], side, side, weight[0]];
        let inputs = [("x", image.to_vec()), ("w", weight.to_vec()), ("r", output), ("b", vec![weight[0]])];
        let mut g = Graph::new();
        let [x, w, r, b] = exact::inputs(&mut g, &inputs)?[..] else { continue };
        let y = if residual {
            g.residual_conv2d(x, w, Some(b), r, window, scale)?
        } else {
            g.conv2d(x, w, Some(b), window)?
        };
        worst = worst.max(exact::error(session, &g, &[y], Precision::Bf16)?);
    }
    Ok((worst, session.lock().cudnn.fused() - before))
}
