//! Group norm: resident in registers (kernels/norm_resident.cu), else by slices of channels, by chunks of pixels, or for
//! any shape (kernels/group_norm.cu).

use super::resident::Resident;
use super::{Io, Lowering, float};
use crate::Shape;
use crate::cuda::driver::Chip;
use crate::error::Result;
use crate::op::group_norm::cut;
use crate::op::{GroupNormGradient, Mask, NormOptions};
use crate::plan::Step;

/// How a group norm or its gradient is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cuda) enum NormKernel {
    /// In one pass, with a slice of an image's channels in registers.
    OnePass(Resident),
    /// By so many chunks of pixels.
    Chunks(usize),
    /// By slices of channels.
    Slices(Slice),
    /// By a kernel for any shape.
    AnyShape,
}

impl NormKernel {
    /// For images `x`, in bf16 if `half`. The forward pass and the gradient have one pass for the same images.
    pub fn new(x: &Shape, groups: usize, half: bool, gradient: bool, chip: Chip) -> NormKernel {
        if half {
            if let Some(cut) = Resident::of(x, groups, gradient, chip.capability) {
                return NormKernel::OnePass(cut);
            }
            if let Some(chunks) = chunks(x) {
                return NormKernel::Chunks(chunks);
            }
        }
        let (pixels, channels) = cut(x);
        Slice::new(pixels, channels, channels / groups).map_or(NormKernel::AnyShape, NormKernel::Slices)
    }

    fn chunks(&self) -> usize {
        if let NormKernel::Chunks(chunks) = self { *chunks } else { 0 }
    }

    /// Bytes for the sums of the chunks.
    pub fn scratch(&self, x: &Shape) -> usize {
        2 * self.chunks() * x[0] * cut(x).1 * 4
    }

    /// Bytes for the sums of images and of the chunks.
    pub fn gradient_scratch(&self, x: &Shape) -> usize {
        match self {
            NormKernel::OnePass(_) => 0,
            kernel => (2 + 3 * kernel.chunks()) * x[0] * cut(x).1 * 4,
        }
    }
}

/// Into how many chunks of pixels a large image's norm is cut, so that all of the GPU works on it.
fn chunks(x: &Shape) -> Option<usize> {
    let (pixels, channels) = cut(x);
    (pixels >= 256 && channels % 8 == 0).then(|| pixels.div_ceil(256).min(16))
}

impl Lowering<'_> {
    /// `y`, mean and inverse deviation.
    pub(super) fn group_norm(&mut self, kernel: &NormKernel, options: &NormOptions, io: &Io) -> Result<()> {
        let (chunks, slice) = match *kernel {
            NormKernel::OnePass(cut) => return self.resident_norm(&cut, options, io),
            NormKernel::Chunks(chunks) => (Some(chunks), None),
            NormKernel::Slices(slice) => (None, Some(slice)),
            NormKernel::AnyShape => (None, None),
        };
        let Io { shapes, ins, outs, scratch, kind, half, .. } = io;
        let (scratch, kind, half) = (*scratch, *kind, *half);
        let (pixels, channels) = cut(shapes[0]);
        let NormOptions { groups, epsilon, silu, mask } = *options;
        let (batch, per_group) = (shapes[0][0], channels / groups);
        let shift = ins.get(3).copied().unwrap_or(0);
        if let Some(chunks) = chunks {
            let (grid, block) = ([channels.div_ceil(64), chunks, batch], [8, 32, 1]);
            let sizes = [pixels as u64, channels as u64, chunks as u64];
            let mut arguments = vec![scratch, ins[0], shift];
            arguments.extend(sizes);
            self.launch("group_norm_sums_bf16", grid, block, 0, &arguments)?;
            let mut arguments = vec![outs[0], outs[1], outs[2], scratch, ins[0], ins[1], ins[2], shift];
            arguments.extend(sizes);
            arguments.extend([per_group as u64, float(epsilon), u64::from(silu)]);
            arguments.extend(self.mask(mask));
            return self.launch("group_norm_apply_bf16", grid, block, 2 * (64 + 2 * per_group) * 4, &arguments);
        }
        let mut arguments = vec![outs[0], outs[1], outs[2], ins[0], ins[1], ins[2], shift];
        arguments.extend([pixels as u64, channels as u64]);
        arguments.extend(slice.as_ref().map(|s| s.slice as u64));
        arguments.extend([per_group as u64, float(epsilon), u64::from(silu)]);
        arguments.extend(self.mask(mask));
        let repeats = slice.as_ref().map_or(0, |s| s.repeats);
        let kept = if repeats <= 1 {
            1
        } else if repeats <= 4 || !half {
            4
        } else {
            8
        };
        self.norm(&format!("group_norm_{kind}_{kept}"), kind, slice, [groups, batch, channels], &arguments)?;
        Ok(())
    }

    /// `dx`, `dgamma`, `dbeta` and, with a shift, `dshift`.
    pub(super) fn group_norm_gradient(
        &mut self,
        kernel: &NormKernel,
        op: &GroupNormGradient,
        step: &Step,
        io: &Io,
    ) -> Result<()> {
        let options = &op.options;
        let (chunks, slice) = match *kernel {
            NormKernel::OnePass(cut) => return self.resident_norm_gradient(&cut, op, io),
            NormKernel::Chunks(chunks) => (Some(chunks), None),
            NormKernel::Slices(slice) => (None, Some(slice)),
            NormKernel::AnyShape => (None, None),
        };
        let Io { shapes, ins, outs, scratch, .. } = io;
        let scratch = *scratch;
        let (pixels, channels) = cut(shapes[3]);
        let NormOptions { groups, silu, mask, .. } = *options;
        let (batch, per_group) = (shapes[3][0], channels / groups);
        let kind = self.kind(step.inputs[3]);
        let (gammas, betas) = (scratch, scratch + (batch * channels * 4) as u64);
        let mut sources = ins.clone();
        sources.resize(7, 0);
        let dshift = outs.get(3).copied().unwrap_or(0);
        if let Some(chunks) = chunks {
            let (grid, block) = ([channels.div_ceil(64), chunks, batch], [8, 32, 1]);
            let sums = scratch + (2 * batch * channels * 4) as u64;
            let sizes = [pixels as u64, channels as u64, chunks as u64, per_group as u64, u64::from(silu)];
            for name in ["sums", "apply"] {
                let mut arguments = match name {
                    "sums" => vec![sums],
                    _ => vec![outs[0], gammas, betas, dshift, sums],
                };
                arguments.extend(&sources);
                arguments.extend(sizes);
                arguments.extend(self.mask(mask));
                let shared = if name == "sums" { 0 } else { 3 * (64 + 2 * per_group) * 4 };
                let name = format!("group_norm_gradient_{name}_bf16");
                self.launch(&name, grid, block, shared, &arguments)?;
            }
        }
        let mut arguments = vec![outs[0], gammas, betas, dshift];
        arguments.extend(&sources);
        arguments.extend([pixels as u64, channels as u64]);
        arguments.extend(slice.as_ref().map(|s| s.slice as u64));
        arguments.extend([per_group as u64, u64::from(silu)]);
        arguments.extend(self.mask(mask));
        let kept = if slice.as_ref().is_some_and(|s| s.repeats > 1) && kind == "bf16" { 4 } else { 1 };
        let name = format!("group_norm_gradient_{kind}_{kept}");
        if chunks.is_none() {
            self.norm(&name, kind, slice, [groups, batch, channels], &arguments)?;
        }
        for (partial, out) in [(gammas, outs[1]), (betas, outs[2])] {
            self.sum_once("float", partial, [1, batch, channels], [batch, 1], out, 1.0)?;
        }
        Ok(())
    }

    /// Arguments of a kernel that may drop elements: threshold, purpose, scale, seed, step.
    pub(super) fn mask(&self, mask: Option<Mask>) -> [u64; 5] {
        let threshold = mask.map_or(0, |m| u64::from(m.threshold()));
        let (purpose, kept) = mask.map_or((0, 1.0), |m| (u64::from(m.purpose), m.kept()));
        [threshold, purpose, float(kept), self.seed, self.step]
    }

    /// A group norm's kernel, by slices of channels, or the one for any shape.
    fn norm(
        &mut self,
        name: &str,
        kind: &str,
        slice: Option<Slice>,
        [groups, batch, channels]: [usize; 3],
        arguments: &[u64],
    ) -> Result<()> {
        match slice {
            Some(s) => {
                let (grid, block) = ([channels / s.slice, batch, 1], [s.lanes, s.rows, 1]);
                self.launch(name, grid, block, s.shared, arguments)
            }
            None => {
                let gradient = if name.contains("gradient") { "gradient_" } else { "" };
                let name = format!("group_norm_{gradient}any_{kind}");
                self.launch(&name, [groups, batch, 1], [256, 1, 1], 0, arguments)
            }
        }
    }
}

/// How GroupNorm's kernels cut an image: see group_norm.cu.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cuda) struct Slice {
    slice: usize,
    lanes: usize,
    rows: usize,
    repeats: usize,
    shared: usize,
}

impl Slice {
    fn new(pixels: usize, channels: usize, per_group: usize) -> Option<Slice> {
        let unit = (1..=8).map(|i| i * per_group).find(|u| u % 8 == 0)?;
        if !channels.is_multiple_of(unit) {
            return None;
        }
        let target = (32_768 / pixels).clamp(32, 64);
        // The first slice that is wide enough for whole memory transactions.
        let fits = |slice: &usize| channels.is_multiple_of(*slice) && *slice >= target.min(channels);
        let slice = (1..=channels / unit).map(|i| i * unit).find(fits).unwrap_or(unit);
        let lanes = slice / 8;
        if lanes > 64 {
            return None;
        }
        let rows = (512 / lanes).clamp(1, pixels);
        Some(Slice { slice, lanes, rows, repeats: pixels.div_ceil(rows), shared: (rows + 3) * slice * 4 })
    }
}
