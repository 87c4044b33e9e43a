//! Attention: with its weights on the chip where they fit (kernels/attention.cu), else as products around a softmax.

use super::{Io, Lowering, float};
use crate::Shape;
use crate::cuda::driver::Chip;
use crate::error::Result;

/// How attention on the chip is cut: a block has some tokens as rows, and room for all as columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cuda) struct OnChip {
    rows: usize,
    width: usize,
    channels: usize,
}

impl OnChip {
    /// The cut for `q [n, tokens, c]`, if there is one.
    pub fn of(q: &Shape, half: bool, chip: Chip) -> Option<OnChip> {
        let [_, tokens, channels] = q.dims()?;
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

    /// Bytes of shared memory: three chunks of 32 channels or tokens, the weights, two numbers for each row and warp.
    fn shared(&self) -> usize {
        3 * 64 * (self.rows + self.width).max(self.channels) + 2 * self.rows * self.width + 4096
    }
}

/// Bytes of scratch memory.
pub(super) fn scratch(q: &Shape, gradient: bool, half: bool, chip: Chip) -> usize {
    let element = if half { 2 } else { 4 };
    let squares = match (OnChip::of(q, half, chip), gradient) {
        (Some(_), false) => 0,
        (Some(_), true) => element,
        (None, false) => 4 + element,
        (None, true) => 8 + 2 * element,
    };
    q[0] * q[1] * q[1] * squares
}

impl Lowering<'_> {
    /// `softmax(scale q k^T) v` and the logarithms of its rows.
    pub(super) fn attention(&mut self, scale: f64, io: &Io) -> Result<()> {
        let Io { shapes, ins, outs, scratch, kind, half, .. } = io;
        let (scratch, kind, half) = (*scratch, *kind, *half);
        if let Some(cut) = OnChip::of(shapes[0], half, self.device.chip) {
            let arguments = [outs[0], outs[1], ins[0], ins[1], ins[2]];
            return self.launch_on_chip("attention", &cut, shapes[0], &arguments, scale);
        }
        let [batch, t, c] = shapes[0].dims().unwrap_or_default();
        let weights = scratch + (batch * t * t * 4) as u64;
        let alpha = scale as f32;
        self.product([t, t, c], batch, alpha, (ins[0], ins[1], scratch), [false, true], half, false);
        let arguments = [weights, outs[1], scratch, (batch * t) as u64, t as u64];
        self.launch(&format!("softmax_{kind}"), [(batch * t).div_ceil(8), 1, 1], [256, 1, 1], 0, &arguments)?;
        self.product([t, c, t], batch, 1.0, (weights, ins[2], outs[0]), [false, false], half, half);
        Ok(())
    }

    /// `dq`, `dk`, `dv`; the weights are computed again.
    pub(super) fn attention_gradient(&mut self, scale: f64, io: &Io) -> Result<()> {
        let Io { shapes, ins, outs, scratch, kind, half, .. } = io;
        let (scratch, kind, half) = (*scratch, *kind, *half);
        let [batch, t, c] = shapes[0].dims().unwrap_or_default();
        let [q, k, v, out, logs, dy] = ins[..] else { return Ok(()) };
        if let Some(cut) = OnChip::of(shapes[0], half, self.device.chip) {
            // The scores' gradients, a row for each key.
            let arguments = [outs[1], outs[2], scratch, q, k, v, out, logs, dy];
            self.launch_on_chip("attention_gradient", &cut, shapes[0], &arguments, scale)?;
            self.product([t, c, t], batch, scale as f32, (scratch, k, outs[0]), [true, false], half, half);
            return Ok(());
        }
        let square = (batch * t * t) as u64;
        let element = if half { 2 } else { 4 };
        let (scores, dp) = (scratch, scratch + 4 * square);
        let (weights, slopes) = (dp + 4 * square, dp + (4 + element) * square);
        let alpha = scale as f32;
        self.product([t, t, c], batch, alpha, (q, k, scores), [false, true], half, false);
        self.product([t, t, c], batch, 1.0, (dy, v, dp), [false, true], half, false);
        let arguments = [weights, slopes, scores, dp, logs, out, dy, (batch * t) as u64, t as u64, c as u64];
        let name = format!("softmax_gradient_{kind}");
        self.launch(&name, [(batch * t).div_ceil(8), 1, 1], [256, 1, 1], 0, &arguments)?;
        self.product([t, c, t], batch, alpha, (slopes, k, outs[0]), [false, false], half, half);
        self.product([t, c, t], batch, alpha, (slopes, q, outs[1]), [true, false], half, half);
        self.product([t, c, t], batch, 1.0, (weights, dy, outs[2]), [true, false], half, half);
        Ok(())
    }

    fn launch_on_chip(&mut self, name: &str, cut: &OnChip, q: &Shape, addresses: &[u64], scale: f64) -> Result<()> {
        let OnChip { rows, width, channels } = cut;
        let name = format!("{name}_{rows}_{width}_{channels}");
        let arguments = [addresses, &[q[1] as u64, float(scale)]].concat();
        self.launch(&name, [q[1].div_ceil(*rows), q[0], 1], [2 * rows, 1, 1], cut.shared(), &arguments)
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
