//! Convolutions of f32 on tensor cores, each number as the sum of two f16 (kernels/conv_f16x2.cu).

use super::{Io, Lowering};
use crate::Precision;
use crate::TensorShape;
use crate::cpu::conv::Geometry;
use crate::cuda::arguments::*;
use crate::cuda::kernels::KernelName;
use crate::error::Result;
use crate::op::{Conv2d, Op};

/// Pixels of a block.
const PIXELS: usize = 128;
/// Filters of a block that there are kernels for, largest first.
pub(in crate::cuda) const FILTERS: [usize; 4] = [96, 64, 48, 32];

/// The geometry of a convolution that the kernels take: multiples of 16 channels, no residual and scale.
pub(in crate::cuda) fn geometry(op: &Op, shapes: &[&TensorShape], precision: Precision) -> Option<Geometry> {
    let Op::Conv2d(op) = op else { return None };
    if precision != Precision::F16x2 || op.residual || op.scale != 1.0 {
        return None;
    }
    let geometry = op.window.known(shapes[0], shapes[1]);
    (geometry.channels % 16 == 0 && geometry.filters % 2 == 0).then_some(geometry)
}

/// Bytes for the weight in pairs of f16.
pub(in crate::cuda) fn scratch(g: &Geometry) -> usize {
    4 * weights(g)
}

fn weights(g: &Geometry) -> usize {
    g.filters * g.rows.taps * g.cols.taps * g.channels
}

impl Lowering<'_> {
    /// Splits the weight into pairs of f16, then convolves, with bias and ReLU.
    pub(super) fn conv_f16x2(&mut self, op: &Conv2d, g: &Geometry, io: &Io) -> Result<()> {
        let fours = weights(g) / 4;
        let arguments = F16x2WeightsArgs { out: io.scratch, weight: io.ins[1], fours: long(fours) };
        self.each(KernelName::F16x2Weights, fours, &arguments)?;
        // A block costs its filters, and about as much as 32 more for its pixels.
        let cost = |block: usize| g.filters.div_ceil(block) * (block + 32);
        let block = FILTERS
            .into_iter()
            .min_by_key(|&block| cost(block))
            .expect("there are kernels for some numbers of filters");
        let pixels = g.batch * g.rows.output * g.cols.output;
        let blocks = pixels.div_ceil(PIXELS) * g.filters.div_ceil(block);
        let (rows, cols) = (&g.rows, &g.cols);
        let arguments = ConvF16x2Args {
            y: io.outs[0],
            x: io.ins[0],
            weight: io.scratch,
            bias: if op.bias { io.ins[2] } else { 0 },
            pixels: int(pixels),
            height: int(rows.input),
            width: int(cols.input),
            channels: int(g.channels),
            out_height: int(rows.output),
            out_width: int(cols.output),
            filters: int(g.filters),
            taps: [rows.taps, cols.taps].map(int),
            stride: [rows.stride, cols.stride].map(int),
            pad: [rows.pad, cols.pad].map(int),
            relu: op.rectified.into(),
        };
        self.launch(KernelName::ConvF16x2 { eights: block / 8 }, [blocks, 1, 1], [PIXELS, 1, 1], 0, &arguments)
    }
}
