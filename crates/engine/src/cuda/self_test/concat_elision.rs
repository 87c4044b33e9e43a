//! Convolutions in bf16 whose results are parts of joined channels, large enough to be fused with what follows them.

use super::exact;
use crate::cuda::Session;
use crate::op::Window;
use crate::{Graph, Precision, Result};
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
        let [x, w, b, u, v, c] = exact::inputs(&mut g, &inputs)?[..] else { continue };
        // The first skip is read as an image and as a residual; the second reads and writes among other channels.
        let skip = g.conv2d(x, w, Some(b), Window::same(taps))?;
        let next = g.residual_conv2d(skip, u, Some(b), skip, Window::same(taps), FRAC_1_SQRT_2)?;
        let low = g.conv2d(next, v, Some(c), Window::same(1))?;
        let high = g.conv2d(skip, v, Some(c), Window::same(1))?;
        let outputs = [g.concat(&[low, next])?, g.concat(&[high, skip])?];
        worst = worst.max(exact::error(session, &g, &outputs, Precision::Bf16)?);
    }
    Ok(worst)
}
