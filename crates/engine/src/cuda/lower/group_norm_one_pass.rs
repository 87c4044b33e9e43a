//! Group norm with an image's slice of channels in registers; see kernels/group_norm_one_pass.cu.

use super::group_norm::{MaskArgs, gradient_inputs};
use super::{Io, Lowering};
use crate::TensorShape;
use crate::cuda::arguments::*;
use crate::cuda::kernels::{KernelName, OnePassVariant};
use crate::error::Result;
use crate::op::group_norm::cut;
use crate::op::{GroupNormGradient, NormOptions};

/// Threads of a block at most.
const THREADS: usize = 256;
/// Packs of eight values that a thread keeps at most.
#[cfg(test)]
const MOST_PACKS: usize = 8;

/// How an image is cut: slices of channels, parts of pixels (the blocks of a cluster), packs per thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cuda) struct OnePass {
    slice: usize,
    parts: usize,
    /// Threads along channels: a power of two, of which the last may have nothing to do.
    lanes: usize,
    rows: usize,
    packs: usize,
    /// Whether every row of threads has work for every pack.
    full: bool,
}

/// Cuts to try in turn: the narrowest slice, packs, parts at most. Wide rows make whole memory transactions, few packs leave
/// room for more blocks, and a cluster costs barriers: too much for the forward pass, which has less to do.
const FORWARD: [(usize, usize, usize); 8] =
    [(128, 1, 1), (64, 2, 1), (32, 4, 1), (32, 8, 1), (16, 8, 1), (32, 8, 8), (16, 8, 8), (8, 8, 8)];
const GRADIENT: [(usize, usize, usize); 7] =
    [(128, 1, 1), (64, 2, 1), (32, 4, 1), (64, 4, 8), (32, 8, 8), (16, 8, 8), (8, 8, 8)];
/// Packs and slices that have kernels of their own; see nvrtc.rs.
pub(in crate::cuda) const KNOWN: [(usize, usize); 8] =
    [(8, 16), (8, 32), (8, 48), (4, 32), (4, 64), (4, 96), (2, 64), (1, 128)];

impl OnePass {
    /// The cut for an image, if there is one; the forward pass and the gradient have one for the same images.
    pub fn of(x: &TensorShape, groups: usize, gradient: bool, capability: (i32, i32)) -> Option<OnePass> {
        let (pixels, channels) = cut(x);
        // Clusters came with Hopper.
        let most_parts = if capability.0 >= 9 { 8 } else { 1 };
        let wishes = if gradient { &GRADIENT[..] } else { &FORWARD };
        OnePass::new(pixels, channels, channels / groups.max(1), most_parts, wishes)
    }

    fn new(
        pixels: usize,
        channels: usize,
        per_group: usize,
        most_parts: usize,
        wishes: &[(usize, usize, usize)],
    ) -> Option<OnePass> {
        let unit = (1..=8).map(|i| i * per_group).find(|u| u % 8 == 0)?;
        if !channels.is_multiple_of(unit) || unit > 128 {
            return None;
        }
        let slices = || {
            (1..=channels / unit)
                .map(|i| i * unit)
                .filter(|s| channels.is_multiple_of(*s) && *s <= 128 && (*s % 16 == 0 || *s == channels))
        };
        wishes.iter().find_map(|&(narrowest, packs, parts)| {
            let slice = slices().find(|&s| s >= narrowest.min(channels))?;
            let lanes = (slice / 8).next_power_of_two();
            let fewest = (0..4).map(|i| 1 << i).take_while(|p| *p <= parts.min(most_parts));
            fewest.filter(|&parts| pixels.is_multiple_of(parts)).find_map(|parts| {
                // As many rows as there are pixels, but a thread for every channel of the slice.
                let rows = (THREADS / lanes).min((pixels / parts).next_multiple_of(8).max(32 / lanes));
                let needed = (pixels / parts).div_ceil(rows);
                let whole = needed.next_power_of_two();
                let full = whole * rows * parts == pixels && lanes * rows == THREADS;
                (needed <= packs).then_some(OnePass { slice, parts, lanes, rows, packs: whole, full })
            })
        })
    }

    /// The kernels for it: for a cut that is known when they are compiled, or for packs of any cut.
    fn variant(&self, silu: bool) -> OnePassVariant {
        let known = self.full && silu && KNOWN.contains(&(self.packs, self.slice));
        OnePassVariant { packs: self.packs, slice: known.then_some(self.slice) }
    }

    /// Bytes of shared memory: three sums per channel and warp, their totals, and those of the cluster's blocks.
    fn shared(&self) -> usize {
        3 * self.slice * (self.lanes * self.rows / 32 + 1 + self.parts) * 4
    }
}

impl Lowering<'_> {
    /// Where dropout's decisions about `x` are kept, one bit per element.
    fn mask_bits(&mut self, options: &NormOptions, x: &TensorShape) -> Result<u64> {
        let Some(mask) = options.mask else { return Ok(0) };
        let key = (mask.purpose, mask.threshold(), x.numel());
        if let Some(&address) = self.masks.get(&key) {
            return Ok(address);
        }
        let buffer = self.device.alloc(x.numel() / 8)?;
        let address = buffer.address;
        self.tables.push(buffer);
        self.masks.insert(key, address);
        Ok(address)
    }

    pub(super) fn one_pass_norm(&mut self, part: &OnePass, options: &NormOptions, io: &Io) -> Result<()> {
        let Io { shapes, ins, pitches, outs, .. } = io;
        let (pixels, channels) = cut(shapes[0]);
        let MaskArgs { threshold, purpose, kept, seed, step, elements } = self.mask(options.mask, shapes[0]);
        let arguments = GroupNormOnePassArgs {
            y: outs[0],
            mean: outs[1],
            inverse: outs[2],
            bits: self.mask_bits(options, shapes[0])?,
            x: ins[0],
            gamma: ins[1],
            beta: ins[2],
            shift: ins.get(3).copied().unwrap_or(0),
            pixels: int(pixels),
            channels: int(channels),
            slice: int(part.slice),
            per_group: int(channels / options.groups),
            epsilon: options.epsilon as f32,
            silu: options.silu.into(),
            threshold,
            purpose,
            kept,
            seed,
            step,
            elements,
            pitch: int(pitches[0]),
        };
        let kernel = KernelName::GroupNormOnePass { variant: part.variant(options.silu) };
        self.launch_one_pass(kernel, part, shapes[0], &arguments)
    }

    pub(super) fn one_pass_norm_gradient(&mut self, part: &OnePass, op: &GroupNormGradient, io: &Io) -> Result<()> {
        let Io { shapes, ins, pitches, outs, .. } = io;
        let (x, options) = (shapes[3], &op.options);
        let bits = self.mask_bits(options, x)?;
        let (images, (pixels, channels)) = (x[0], cut(x));
        let partials = self.device.alloc((2 + part.parts) * images * channels * 4)?;
        let (base, addends) = ins.split_at(ins.len() - op.addends.len());
        let shifted = base.len() > 6;
        let dsum = if op.sums.is_some() { outs[if shifted { 4 } else { 3 }] } else { 0 };
        let mut arguments = GroupNormOnePassGradientArgs {
            dx: outs[0],
            second: if op.split.is_some() { outs[outs.len() - 1] } else { 0 },
            split: int(op.split.unwrap_or(channels)),
            dshift: if shifted { outs[3] } else { 0 },
            partials: partials.address,
            sums: op.sums.is_some().into(),
            inputs: gradient_inputs(base),
            bits,
            addends: [0; 3],
            factors: [0.0; 3],
            pixels: int(pixels),
            channels: int(channels),
            slice: int(part.slice),
            per_group: int(channels / options.groups),
            silu: options.silu.into(),
            kept: self.mask(options.mask, shapes[3]).kept,
            pitch: int(pitches[3]),
        };
        for (i, (&address, &factor)) in addends.iter().zip(&op.addends).enumerate() {
            (arguments.addends[i], arguments.factors[i]) = (address, factor as f32);
        }
        // Kernels for known cuts also know the number of addends, up to two; the others have room for three.
        let variant = part.variant(options.silu && addends.len() <= 2);
        let room = if variant.slice.is_some() { addends.len() } else { addends.len().min(1) * 3 };
        self.launch_one_pass(KernelName::GroupNormOnePassGradient { addends: room, variant }, part, x, &arguments)?;
        // Nothing in the backward pass waits for the sums over the images.
        let sets = if op.sums.is_some() { 3 } else { 2 };
        let parts = images * if addends.is_empty() { 1 } else { part.parts };
        let arguments = NormImageSumsArgs {
            dgamma: outs[1],
            dbeta: outs[2],
            sums: dsum,
            partials: partials.address,
            images: int(images),
            parts: int(parts),
            channels: int(channels),
            factor: op.sums.unwrap_or(0.0) as f32,
        };
        self.tables.push(partials);
        let grid = [channels.div_ceil(32), sets, 1];
        self.launch(KernelName::NormImageSums, grid, [32, 8, 1], 0, &arguments)?;
        self.later.extend(self.commands.pop());
        Ok(())
    }

    fn launch_one_pass<A: Arguments>(
        &mut self,
        kernel: KernelName,
        part: &OnePass,
        x: &TensorShape,
        arguments: &A,
    ) -> Result<()> {
        let grid = [x[x.len() - 1] / part.slice, part.parts, x[0]];
        self.launch(kernel, grid, [part.lanes, part.rows, 1], part.shared(), arguments)?;
        if let Some(super::Command::Kernel(launch)) = self.commands.last_mut() {
            launch.cluster = part.parts as u32;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cut_covers_the_image_with_whole_groups() {
        // Pixels, channels, channels of a group, and whether there is a cut without and with clusters.
        for (pixels, channels, per_group, alone, in_clusters) in [
            (1024, 128, 4, true, true),
            (1024, 256, 8, true, true),
            (1024, 384, 12, false, true),
            (256, 256, 8, true, true),
            (256, 384, 12, true, true),
            (256, 512, 16, true, true),
            (64, 512, 16, true, true),
            (16, 256, 8, true, true),
            (4, 64, 4, true, true),
            (4096, 128, 4, false, true),
            (4096, 384, 12, false, false),
            (1, 8, 4, true, true),
            (272, 72, 12, false, true),
            (64, 30, 3, false, false),
        ] {
            for (most, expected, wishes) in [
                (1, alone, &FORWARD[..]),
                (1, alone, &GRADIENT),
                (8, in_clusters, &FORWARD),
                (8, in_clusters, &GRADIENT),
            ] {
                let found = OnePass::new(pixels, channels, per_group, most, wishes);
                assert_eq!(found.is_some(), expected, "{pixels} {channels} {per_group} {most}: {found:?}");
                let Some(r) = found else { continue };
                assert!(channels % r.slice == 0 && r.slice % per_group == 0 && r.lanes * 8 >= r.slice, "{r:?}");
                assert!(r.rows * r.packs * r.parts >= pixels && pixels % r.parts == 0, "{r:?}");
                assert!(
                    r.lanes * r.rows <= THREADS
                        && r.slice <= r.lanes * r.rows
                        && r.lanes * r.rows % 32 == 0
                        && r.packs <= MOST_PACKS,
                    "{r:?}"
                );
                assert!(r.shared() <= 48 << 10 && r.parts <= most, "{r:?}");
            }
        }
    }
}
