//! Convolutions of f32 on tensor cores, in halves (kernels/split.cu).

use super::{Io, Lowering, Numbers};
use crate::Shape;
use crate::cpu::conv::Geometry;
use crate::error::Result;
use crate::op::{Conv2d, Op};

/// Pixels of a block.
const PIXELS: usize = 128;
/// Filters of a block that there are kernels for, largest first.
const FILTERS: [usize; 4] = [96, 64, 48, 32];

/// The geometry of a convolution that the kernels take: whole steps of 16 channels, a plain end.
pub(in crate::cuda) fn geometry(op: &Op, shapes: &[&Shape], numbers: Numbers) -> Option<Geometry> {
    let Op::Conv2d(op) = op else { return None };
    if numbers != Numbers::Split || op.residual || op.scale != 1.0 {
        return None;
    }
    let geometry = op.window.known(shapes[0], shapes[1]);
    (geometry.channels % 16 == 0 && geometry.filters % 2 == 0).then_some(geometry)
}

/// Bytes for the weight in halves.
pub(in crate::cuda) fn scratch(g: &Geometry) -> usize {
    4 * weights(g)
}

fn weights(g: &Geometry) -> usize {
    g.filters * g.rows.taps * g.cols.taps * g.channels
}

impl Lowering<'_> {
    /// The weight into its halves, then the convolution with bias and rectifier.
    pub(super) fn split_conv(&mut self, op: &Conv2d, g: &Geometry, io: &Io) -> Result<()> {
        let fours = weights(g) / 4;
        self.each("split_weights", fours, &[io.scratch, io.ins[1], fours as u64])?;
        // A block costs its filters, and as much as some 32 more for its pixels.
        let cost = |block: usize| g.filters.div_ceil(block) * (block + 32);
        let block = FILTERS
            .into_iter()
            .min_by_key(|&block| cost(block))
            .expect("there are kernels for some numbers of filters");
        let pixels = g.batch * g.rows.output * g.cols.output;
        let blocks = pixels.div_ceil(PIXELS) * g.filters.div_ceil(block);
        let mut arguments = vec![io.outs[0], io.ins[0], io.scratch, if op.bias { io.ins[2] } else { 0 }];
        let (rows, cols) = (&g.rows, &g.cols);
        let sizes = [pixels, rows.input, cols.input, g.channels, rows.output, cols.output, g.filters];
        let window = [rows.taps, cols.taps, rows.stride, cols.stride, rows.pad, cols.pad];
        arguments.extend(sizes.into_iter().chain(window).map(|n| n as u64));
        arguments.push(u64::from(op.rectified));
        self.launch(&format!("split_conv_{}", block / 8), [blocks, 1, 1], [PIXELS, 1, 1], 0, &arguments)
    }
}
