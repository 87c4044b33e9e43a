//! Group norm with an image's slice of channels in registers; see kernels/norm_resident.cu.

use super::{Io, Lowering, float};
use crate::Shape;
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
pub(in crate::cuda) struct Resident {
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
const KNOWN: [(usize, usize); 8] = [(8, 16), (8, 32), (8, 48), (4, 32), (4, 64), (4, 96), (2, 64), (1, 128)];

impl Resident {
    /// The cut for an image, if there is one; the forward pass and the gradient have one for the same images.
    pub fn of(x: &Shape, groups: usize, gradient: bool, capability: (i32, i32)) -> Option<Resident> {
        let (pixels, channels) = cut(x);
        // Clusters came with Hopper.
        let most_parts = if capability.0 >= 9 { 8 } else { 1 };
        let wishes = if gradient { &GRADIENT[..] } else { &FORWARD };
        Resident::new(pixels, channels, channels / groups.max(1), most_parts, wishes)
    }

    fn new(
        pixels: usize,
        channels: usize,
        per_group: usize,
        most_parts: usize,
        wishes: &[(usize, usize, usize)],
    ) -> Option<Resident> {
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
                (needed <= packs).then_some(Resident { slice, parts, lanes, rows, packs: whole, full })
            })
        })
    }

    /// What the names of its kernels end with: a cut that is known when they are compiled, or packs of any cut.
    fn suffix(&self, silu: bool) -> (String, bool) {
        let known = self.full && silu && KNOWN.contains(&(self.packs, self.slice));
        (if known { format!("{}x{}", self.packs, self.slice) } else { self.packs.to_string() }, known)
    }

    /// Bytes of shared memory: three sums per channel and warp, their totals, and those of the cluster's blocks.
    fn shared(&self) -> usize {
        3 * self.slice * (self.lanes * self.rows / 32 + 1 + self.parts) * 4
    }
}

impl Lowering<'_> {
    /// Where dropout's decisions about `x` are kept, one bit per element.
    fn mask_bits(&mut self, options: &NormOptions, x: &Shape) -> Result<u64> {
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

    pub(super) fn resident_norm(&mut self, cut: &Resident, options: &NormOptions, io: &Io) -> Result<()> {
        let Io { shapes, ins, pitches, outs, .. } = io;
        let bits = self.mask_bits(options, shapes[0])?;
        let shift = ins.get(3).copied().unwrap_or(0);
        let mut arguments = vec![outs[0], outs[1], outs[2], bits, ins[0], ins[1], ins[2], shift];
        arguments.extend(self.sizes(cut, options, shapes[0]));
        arguments.extend([float(options.epsilon), u64::from(options.silu)]);
        arguments.extend(self.mask(options.mask));
        arguments.push(pitches[0] as u64);
        self.launch_resident(format!("norm_resident_{}", cut.suffix(options.silu).0), cut, shapes[0], arguments)
    }

    pub(super) fn resident_norm_gradient(&mut self, cut: &Resident, op: &GroupNormGradient, io: &Io) -> Result<()> {
        let Io { shapes, ins, pitches, outs, .. } = io;
        let (x, options) = (shapes[3], &op.options);
        let bits = self.mask_bits(options, x)?;
        let (images, channels) = (x[0], x[x.len() - 1]);
        let partials = self.device.alloc((2 + cut.parts) * images * channels * 4)?;
        let (base, addends) = ins.split_at(ins.len() - op.addends.len());
        let shifted = base.len() > 6;
        let dshift = if shifted { outs[3] } else { 0 };
        let dsum = if op.sums.is_some() { outs[if shifted { 4 } else { 3 }] } else { 0 };
        let second = if op.split.is_some() { outs[outs.len() - 1] } else { 0 };
        let split = op.split.unwrap_or(channels) as u64;
        let mut arguments = vec![outs[0], second, split, dshift, partials.address, u64::from(op.sums.is_some())];
        arguments.extend(base);
        arguments.resize(13, 0);
        arguments.push(bits);
        arguments.extend((0..3).map(|i| addends.get(i).copied().unwrap_or(0)));
        arguments.extend((0..3).map(|i| float(op.addends.get(i).copied().unwrap_or(0.0))));
        arguments.extend(self.sizes(cut, options, x));
        arguments.push(u64::from(options.silu));
        let [_, _, kept, ..] = self.mask(options.mask);
        arguments.extend([kept, pitches[3] as u64]);
        // Kernels for known cuts also know the number of addends, up to two; the others have room for three.
        let (suffix, known) = match addends.len() {
            ..=2 => cut.suffix(options.silu),
            _ => cut.suffix(false),
        };
        let room = if known { addends.len() } else { addends.len().min(1) * 3 };
        self.launch_resident(format!("norm_resident_gradient_{room}_{suffix}"), cut, x, arguments)?;
        // The sums over the images are nobody's hurry.
        let sets = if op.sums.is_some() { 3 } else { 2 };
        let parts = images * if addends.is_empty() { 1 } else { cut.parts };
        let arguments = [outs[1], outs[2], dsum, partials.address, images as u64, parts as u64, channels as u64];
        let arguments = [&arguments[..], &[float(op.sums.unwrap_or(0.0))]].concat();
        self.tables.push(partials);
        let grid = [channels.div_ceil(32), sets, 1];
        self.launch("norm_image_sums", grid, [32, 8, 1], 0, &arguments)?;
        self.later.extend(self.commands.pop());
        Ok(())
    }

    fn sizes(&self, part: &Resident, options: &NormOptions, x: &Shape) -> [u64; 4] {
        let (pixels, channels) = cut(x);
        [pixels, channels, part.slice, channels / options.groups].map(|n| n as u64)
    }

    fn launch_resident(&mut self, name: String, cut: &Resident, x: &Shape, arguments: Vec<u64>) -> Result<()> {
        let grid = [x[x.len() - 1] / cut.slice, cut.parts, x[0]];
        self.launch(&name, grid, [cut.lanes, cut.rows, 1], cut.shared(), &arguments)?;
        if let Some(super::Command::Kernel(launch)) = self.commands.last_mut() {
            launch.cluster = cut.parts as u32;
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
                let found = Resident::new(pixels, channels, per_group, most, wishes);
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
