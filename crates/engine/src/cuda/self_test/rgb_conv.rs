//! Convolutions from and to colours, with their gradients.

use super::exact;
use crate::cuda::Session;
use crate::op::Window;
use crate::{Graph, Precision, Result, Storage};
use std::sync::Arc;

/// Image, weight, stride, padding, and whether there is a residual and a scale.
type RgbConvCase = ([usize; 4], [usize; 4], usize, usize, bool);

const CASES: [RgbConvCase; 7] = [
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
        let [x, w, r, d, b] = exact::inputs(&mut g, &inputs)?[..] else { continue };
        let y = if residual {
            g.residual_conv2d(x, w, Some(b), r, window, 0.7)?
        } else {
            let y = g.conv2d(x, w, Some(b), window)?;
            g.add(y, r)?
        };
        let product = g.mul(y, d)?;
        let product = g.cast(product, Storage::Full)?;
        let loss = g.sum(product)?;
        let mut outputs = g.gradients(loss, &[x, w])?;
        outputs.push(y);
        worst = worst.max(exact::error(session, &g, &outputs, Precision::Bf16)?);
    }
    Ok(worst)
}
