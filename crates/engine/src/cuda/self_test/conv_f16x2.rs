//! Rectified convolutions of every shape that the kernels in halves tell apart.

use super::exact;
use crate::cuda::Session;
use crate::op::Window;
use crate::{Graph, Precision, Result};
use std::sync::Arc;

/// Image, weight, stride and padding.
type ConvF16x2Case = ([usize; 4], [usize; 4], [usize; 2], [usize; 2]);

const CASES: [ConvF16x2Case; 8] = [
    // Fewer pixels than a block, one step of the sum.
    ([1, 3, 5, 16], [8, 1, 1, 16], [1, 1], [0, 0]),
    // 32, 48, 64 and 96 filters to a block; blocks that are partly empty.
    ([2, 9, 11, 32], [32, 3, 3, 32], [1, 1], [1, 1]),
    ([3, 7, 8, 48], [48, 5, 5, 48], [1, 1], [2, 2]),
    ([2, 17, 17, 64], [64, 1, 7, 64], [1, 1], [0, 3]),
    ([2, 13, 9, 80], [192, 7, 1, 80], [1, 1], [3, 0]),
    ([2, 11, 11, 32], [104, 3, 3, 32], [1, 1], [0, 0]),
    // Strides, also unlike each other.
    ([2, 19, 21, 96], [96, 3, 3, 96], [2, 2], [0, 0]),
    ([1, 20, 23, 16], [10, 3, 5, 16], [2, 3], [1, 2]),
];

/// The worst relative error over all cases, with and without bias and rectifier.
pub(super) fn difference(session: &Arc<Session>, precision: Precision) -> Result<f64> {
    let mut worst: f64 = 0.0;
    for (image, weight, stride, pad) in CASES {
        let mut g = Graph::new();
        let inputs = [("x", image.to_vec()), ("w", weight.to_vec()), ("b", vec![weight[0]])];
        let mut vars = Vec::new();
        for (name, shape) in &inputs {
            vars.push(g.input(name, &shape[..])?);
        }
        let window = Window { stride, pad };
        let plain = g.conv2d(vars[0], vars[1], None, window)?;
        let biased = g.conv2d(vars[0], vars[1], Some(vars[2]), window)?;
        let rectified = g.relu(biased)?;
        let outputs = [plain, rectified];
        worst = worst.max(exact::error(session, &g, &outputs, precision)?);
    }
    Ok(worst)
}
