//! Attention: with its weights on the chip where they fit (kernels/attention.cu), else as products around a softmax.

use super::{Io, Lowering};
use crate::TensorShape;
use crate::cuda::arguments::*;
use crate::cuda::driver::{Address, Chip};
use crate::cuda::kernels::KernelName;
use crate::error::Result;
use crate::op::attention::known;

/// How attention on the chip is cut: a block has some tokens as rows, and room for all as columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cuda) struct OnChip {
    rows: usize,
    width: usize,
    channels: usize,
}

impl OnChip {
    /// The cut for `qkv [n, tokens, 3 c]`, if there is one.
    pub fn of(qkv: &TensorShape, half: bool, chip: Chip) -> Option<OnChip> {
        let [_, tokens, channels] = known(qkv);
        let modern = half && chip.capability.0 >= 8;
        modern.then(|| OnChip::new(tokens, channels, chip.shared)).flatten()
    }

    fn new(tokens: usize, channels: usize, most_shared: usize) -> Option<OnChip> {
        if tokens > 256 || !tokens.is_multiple_of(8) || ![64, 128, 256].contains(&channels) {
            return None;
        }
        // Many rows read the columns less often.
        let cuts: &[(usize, usize)] = match tokens {
            ..=64 => &[(64, 64)],
            _ => &[(128, 256), (64, 256)],
        };
        let cuts = cuts.iter().map(|&(rows, width)| OnChip { rows, width, channels });
        cuts.into_iter().find(|cut| cut.shared() <= most_shared)
    }

    /// Bytes of scratch memory for the gradient: the scores' gradients.
    pub fn gradient_scratch(qkv: &TensorShape) -> usize {
        qkv[0] * qkv[1] * qkv[1] * 2
    }

    /// Bytes of shared memory: three chunks of 32 channels or tokens, the weights, two numbers for each row and warp.
    fn shared(&self) -> usize {
        3 * 64 * (self.rows + self.width).max(self.channels) + 2 * self.rows * self.width + 4096
    }
}

/// Bytes of scratch memory for the products.
pub(in crate::cuda) fn scratch(qkv: &TensorShape, gradient: bool, half: bool) -> usize {
    let element = if half { 2 } else { 4 };
    let squares = if gradient { 8 + 2 * element } else { 4 + element };
    qkv[0] * qkv[1] * qkv[1] * squares
}

/// Queries, keys and values: where each begins, and the elements from row to row.
fn parts(qkv: Address, c: usize, half: bool) -> [(Address, usize); 3] {
    let element = if half { 2 } else { 4 };
    [0, 1, 2].map(|part| (qkv + (part * c * element) as u64, 3 * c))
}

/// `qkv`, the output, the rows' logarithms and `dy`.
fn gradient_inputs(io: &Io) -> [Address; 4] {
    io.ins[..].try_into().expect("the gradient of attention has four inputs")
}

impl Lowering<'_> {
    /// `softmax(scale q k^T) v` and the logarithms of its rows.
    pub(super) fn attention_on_chip(&mut self, cut: &OnChip, scale: f64, io: &Io) -> Result<()> {
        let OnChip { rows, width, channels } = *cut;
        let (tokens, scale) = (int(io.shapes[0][1]), scale as f32);
        let arguments = AttentionArgs { out: io.outs[0], logs: io.outs[1], qkv: io.ins[0], tokens, scale };
        self.launch_on_chip(KernelName::Attention { rows, width, channels }, cut, io.shapes[0], &arguments)
    }

    /// The same as products around a softmax.
    pub(super) fn attention(&mut self, scale: f64, io: &Io) -> Result<()> {
        let Io { shapes, ins, outs, scratch, half, .. } = io;
        let (scratch, half) = (*scratch, *half);
        let [batch, t, c] = known(shapes[0]);
        let [q, k, v] = parts(ins[0], c, half);
        let (scores, weights) = (scratch, scratch + (batch * t * t * 4) as u64);
        self.product([t, t, c], batch, scale as f32, [q, k, (scores, t)], [false, true], half, false);
        let (out, logs, rows, width) = (weights, outs[1], long(batch * t), int(t));
        let arguments = SoftmaxArgs { out, logs, scores, rows, width };
        self.launch(
            KernelName::Softmax { element: io.element },
            [(batch * t).div_ceil(8), 1, 1],
            [256, 1, 1],
            0,
            &arguments,
        )?;
        self.product([t, c, t], batch, 1.0, [(weights, t), v, (outs[0], c)], [false, false], half, half);
        Ok(())
    }

    /// The gradient of queries, keys and values; the weights are computed again.
    pub(super) fn attention_gradient_on_chip(&mut self, cut: &OnChip, scale: f64, io: &Io) -> Result<()> {
        let [batch, t, c] = known(io.shapes[0]);
        let [qkv, out, logs, dy] = gradient_inputs(io);
        let ([_, k, _], [dq, _, _]) = (parts(qkv, c, true), parts(io.outs[0], c, true));
        // The scores' gradients, a row for each key.
        let slopes = io.scratch;
        let OnChip { rows, width, channels } = *cut;
        let arguments =
            AttentionGradientArgs { dqkv: io.outs[0], slopes, qkv, out, logs, dy, tokens: int(t), scale: scale as f32 };
        let kernel = KernelName::AttentionGradient { rows, width, channels };
        self.launch_on_chip(kernel, cut, io.shapes[0], &arguments)?;
        self.product([t, c, t], batch, scale as f32, [(slopes, t), k, dq], [true, false], true, true);
        Ok(())
    }

    /// The same as products around a softmax.
    pub(super) fn attention_gradient(&mut self, scale: f64, io: &Io) -> Result<()> {
        let Io { shapes, outs, scratch, half, .. } = io;
        let (scratch, half) = (*scratch, *half);
        let [batch, t, c] = known(shapes[0]);
        let [qkv, out, logs, dy] = gradient_inputs(io);
        let ([q, k, v], [dq, dk, dv]) = (parts(qkv, c, half), parts(outs[0], c, half));
        let alpha = scale as f32;
        let square = (batch * t * t) as u64;
        let element = if half { 2 } else { 4 };
        let (scores, dp) = (scratch, scratch + 4 * square);
        let (weights, slopes) = (dp + 4 * square, dp + (4 + element) * square);
        self.product([t, t, c], batch, alpha, [q, k, (scores, t)], [false, true], half, false);
        self.product([t, t, c], batch, 1.0, [(dy, c), v, (dp, t)], [false, true], half, false);
        let (rows, width, channels) = (long(batch * t), int(t), int(c));
        let arguments = SoftmaxGradientArgs { weights, slopes, scores, dp, logs, out, dy, rows, width, channels };
        self.launch(
            KernelName::SoftmaxGradient { element: io.element },
            [(batch * t).div_ceil(8), 1, 1],
            [256, 1, 1],
            0,
            &arguments,
        )?;
        self.product([t, c, t], batch, alpha, [(slopes, t), k, dq], [false, false], half, half);
        self.product([t, c, t], batch, alpha, [(slopes, t), q, dk], [true, false], half, half);
        self.product([t, c, t], batch, 1.0, [(weights, t), (dy, c), dv], [true, false], half, half);
        Ok(())
    }

    fn launch_on_chip<A: Arguments>(
        &mut self,
        kernel: KernelName,
        cut: &OnChip,
        qkv: &TensorShape,
        arguments: &A,
    ) -> Result<()> {
        let grid = [qkv[1].div_ceil(cut.rows), qkv[0], 1];
        self.launch(kernel, grid, [2 * cut.rows, 1, 1], cut.shared(), arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_goes_on_the_chip_where_it_fits() {
        let (small, large) = (99 << 10, 227 << 10);
        for (tokens, channels, most_shared, rows) in [
            (256, 256, large, Some(128)),
            (256, 256, 163 << 10, Some(128)),
            (256, 256, small, Some(64)),
            (72, 64, large, Some(128)),
            (64, 256, small, Some(64)),
            (16, 128, small, Some(64)),
            (256, 256, 48 << 10, None),
            (1024, 128, large, None),
            (36, 128, large, None),
            (256, 512, large, None),
        ] {
            let found = OnChip::new(tokens, channels, most_shared);
            assert_eq!(found.map(|cut| cut.rows), rows, "{tokens} {channels}");
            assert!(found.is_none_or(|cut| cut.width >= tokens && cut.shared() <= most_shared), "{found:?}");
        }
    }
}
