//! 3 x 3 convolutions between RGB images and many channels (kernels/rgb_conv.cu).

use super::{Io, Lowering};
use crate::TensorShape;
use crate::cpu::conv::Geometry;
use crate::cuda::arguments::*;
use crate::cuda::cudnn::ConvPass;
use crate::cuda::driver::{Address, Chip};
use crate::cuda::kernels::KernelName;
use crate::error::Result;
use crate::op::Op;
use crate::plan::Step;

/// Channels of a narrow image at most.
const COLOURS: usize = 3;
/// Rows of the wide image in a strip.
const ROWS: usize = 8;
/// Channels of a block.
const CHANNELS: usize = 64;
/// Values from one channel's weights to the next in shared memory.
const PITCH: usize = 34;
/// The sums of such a block: for 32 taps and colours.
const SUMS: usize = 32 * CHANNELS;
/// Blocks that share the pixels in these sums: as many on every GPU, so that the order is.
const PARTS: usize = 128;

/// Which image the kernel computes, if it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RgbSum {
    Wide,
    Narrow,
    Weights,
}

/// A convolution that the kernels compute.
#[derive(Clone, Copy, Debug)]
pub(in crate::cuda) struct RgbConv {
    sum: RgbSum,
    geometry: Geometry,
    /// Whether the narrow image is what the convolution makes.
    last: bool,
}

impl RgbConv {
    /// For bf16 with tensor cores; rows of the wide image in 16s and its channels in 64s.
    pub fn of(op: &Op, shapes: &[&TensorShape], half: bool, chip: Chip) -> Option<RgbConv> {
        let (kind, geometry) = super::convolution::geometry(op, shapes);
        let g = &geometry;
        let last = g.filters <= COLOURS;
        let sum = match (kind, last) {
            (ConvPass::WeightGradient, _) => RgbSum::Weights,
            (ConvPass::Forward, true) | (ConvPass::InputGradient, false) => RgbSum::Narrow,
            (ConvPass::Forward, false) | (ConvPass::InputGradient, true) => RgbSum::Wide,
        };
        let narrow = RgbConv { sum, geometry, last };
        let (colours, channels, width) = narrow.sizes();
        let (rows, cols) = (&g.rows, &g.cols);
        let threes = rows.taps == 3 && cols.taps == 3 && rows.stride == cols.stride && rows.pad == cols.pad;
        let plain = rows.stride == 1 && rows.pad == 1;
        // With a stride only towards the wide image, whose every pixel sees all taps.
        let suits = threes && (plain || !last && sum != RgbSum::Narrow && rows.stride <= 2);
        let whole = colours <= COLOURS && channels.is_multiple_of(CHANNELS) && width.is_multiple_of(16);
        let fits = half && chip.capability.0 >= 8 && narrow.shared() <= chip.shared;
        (suits && whole && fits).then_some(narrow)
    }

    /// Channels of the narrow and of the wide image, and the width of the latter.
    fn sizes(&self) -> (usize, usize, usize) {
        let g = &self.geometry;
        if self.last { (g.filters, g.channels, g.cols.input) } else { (g.channels, g.filters, g.cols.output) }
    }

    fn strips(&self) -> usize {
        let rows = &self.geometry.rows;
        self.geometry.batch * if self.last { rows.input } else { rows.output }.div_ceil(ROWS)
    }

    fn parts(&self) -> usize {
        self.strips().min(PARTS)
    }

    /// Bytes of shared memory of a block.
    fn shared(&self) -> usize {
        let (colours, channels, width) = self.sizes();
        let seen = |pixels: usize| (pixels - 1) * self.geometry.rows.stride + 3;
        // One value more is read, and not used.
        let strip = (2 * seen(ROWS) * seen(width) * colours + 2).next_multiple_of(16);
        match self.sum {
            RgbSum::Wide => 2 * CHANNELS * PITCH + strip,
            RgbSum::Narrow => 32 * channels * 2 + 9 * colours * ((ROWS + 2) * width + 4) * 4,
            RgbSum::Weights => strip.max(4 * SUMS * 4),
        }
    }

    /// Bytes for the sums of the blocks.
    pub fn scratch(&self) -> usize {
        if self.sum == RgbSum::Weights { self.parts() * self.sizes().1 * SUMS / CHANNELS * 4 } else { 0 }
    }

    /// How the images are joined, as the kernels' last arguments, and where the weight of the first tap begins.
    fn joint(&self) -> ([i32; 11], u64) {
        let g = &self.geometry;
        let (rows, cols) = (&g.rows, &g.cols);
        let (colours, channels, _) = self.sizes();
        let (narrow, wide) = ([rows.input, cols.input], [rows.output, cols.output]);
        // Seen from the wide image, the taps of the last convolution go backwards.
        let (steps, start) = if self.last {
            ([1, -(channels as i32), 9 * channels as i32], 8 * channels)
        } else {
            ([9 * colours as i32, colours as i32, 1], 0)
        };
        let [height, width] = narrow.map(int);
        let [wide_height, wide_width] = wide.map(int);
        let [channel_step, tap_step, colour_step] = steps;
        let [colours, channels, stride, pad] = [colours, channels, rows.stride, rows.pad].map(int);
        // `Joint` of the kernels.
        #[rustfmt::skip]
        let joint = [
            height, width, colours, wide_height, wide_width, channels, stride, pad, channel_step, tap_step, colour_step,
        ];
        (joint, 2 * start as u64)
    }
}

impl Lowering<'_> {
    pub(super) fn rgb_conv(&mut self, narrow: &RgbConv, step: &Step, io: &Io) -> Result<()> {
        let Io { ins, outs, scratch, .. } = io;
        let (joint, start) = narrow.joint();
        let (strips, channels, shared) = (narrow.strips(), narrow.sizes().1, narrow.shared());
        if narrow.sum == RgbSum::Weights {
            let Op::Conv2dWeightGradient(op) = &step.op else { unreachable!("only a gradient sums over pixels") };
            let images = if narrow.last { [ins[1], ins[0]] } else { [ins[0], ins[1]] };
            let (parts, groups) = (narrow.parts(), channels / CHANNELS);
            let (sums, [narrow, wide], strips) = (*scratch, images, int(strips));
            let arguments = RgbConvWeightSumsArgs { sums, narrow, wide, strips, joint };
            self.launch(KernelName::RgbConvWeightSums, [parts, groups, 1], [256, 1, 1], shared, &arguments)?;
            let (out, scale) = (outs[0] + start, op.scale as f32);
            let arguments = RgbConvWeightsArgs { out, sums, parts: int(parts), groups: int(groups), scale, joint };
            return self.launch(KernelName::RgbConvWeights, [groups * SUMS / 32, 1, 1], [32, 16, 1], 0, &arguments);
        }
        let (bias, residual, scale, rectified): (Address, Address, f64, bool) = match &step.op {
            Op::Conv2d(op) => {
                let residual = if op.residual { ins[ins.len() - 1] } else { 0 };
                (if op.bias { ins[2] } else { 0 }, residual, op.scale, op.rectified)
            }
            Op::Conv2dInputGradient(op) => (0, 0, op.scale, false),
            op => unreachable!("{} is no convolution", op.name()),
        };
        let weight = self.weight(step, true)? + start;
        let (out, image, scale, relu) = (outs[0], ins[0], scale as f32, i32::from(rectified));
        if narrow.sum == RgbSum::Narrow {
            let arguments = RgbConvFromWideArgs { out, wide: image, weight, bias, residual, scale, relu, joint };
            return self.launch(KernelName::RgbConvFromWide, [strips, 1, 1], [128, 1, 1], shared, &arguments);
        }
        let pitch = int(self.plan.pitch(step.outputs[0]));
        let residual_pitch = int(*io.pitches.last().expect("a convolution has inputs"));
        #[rustfmt::skip]
        let arguments = RgbConvToWideArgs {
            out, narrow: image, weight, bias, residual, scale, relu, pitch, residual_pitch, joint,
        };
        let grid = [strips, channels / CHANNELS, 1];
        self.launch(KernelName::RgbConvToWide, grid, [128, 1, 1], shared, &arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Conv2d, Window};

    fn taken(image: [usize; 4], weight: [usize; 4], window: Window, chip: Chip) -> Option<RgbSum> {
        let op: Op = Conv2d { window, scale: 1.0, bias: true, residual: false, rectified: false }.into();
        RgbConv::of(&op, &[&image.into(), &weight.into()], true, chip).map(|narrow| narrow.sum)
    }

    #[test]
    fn convolutions_from_and_to_colours_are_taken() {
        let (same, chip) = (Window::same(3), Chip::HOPPER);
        assert_eq!(taken([2, 32, 32, 3], [128, 3, 3, 3], same, chip), Some(RgbSum::Wide));
        assert_eq!(taken([2, 32, 32, 128], [3, 3, 3, 128], same, chip), Some(RgbSum::Narrow));
        assert_eq!(taken([2, 33, 33, 3], [128, 3, 3, 3], Window::valid(2), chip), Some(RgbSum::Wide));
        // Other widths, channels, strides, numbers of taps, and older GPUs.
        assert_eq!(taken([2, 28, 28, 3], [128, 3, 3, 3], same, chip), None);
        assert_eq!(taken([2, 32, 32, 128], [128, 3, 3, 128], same, chip), None);
        assert_eq!(taken([2, 33, 33, 128], [3, 3, 3, 128], Window::valid(2), chip), None);
        assert_eq!(taken([2, 32, 32, 3], [128, 1, 1, 3], Window::same(1), chip), None);
        assert_eq!(taken([2, 32, 32, 3], [128, 3, 3, 3], same, Chip { capability: (7, 5), shared: 64 << 10 }), None);
    }
}
