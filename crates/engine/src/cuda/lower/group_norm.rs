//! Group norm: in one pass (kernels/group_norm_one_pass.cu), else by slices of channels, by chunks of pixels, or for any shape
//! (kernels/group_norm.cu).

use super::group_norm_one_pass::OnePass;
use super::{Io, Lowering};
use crate::TensorShape;
use crate::cuda::arguments::*;
use crate::cuda::driver::{Address, Chip};
use crate::cuda::kernels::{ElementType, KernelName};
use crate::error::Result;
use crate::op::group_norm::cut;
use crate::op::{GroupNormGradient, Mask, NormOptions};
use crate::plan::Step;

/// How a group norm or its gradient is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cuda) enum GroupNormKernel {
    /// In one pass, with a slice of an image's channels in registers.
    OnePass(OnePass),
    /// By this many chunks of pixels.
    Chunks(usize),
    /// By slices of channels.
    Slices(Slice),
    /// By a kernel for any shape.
    AnyShape,
}

impl GroupNormKernel {
    /// For images `x`, in bf16 if `half`. The forward pass and the gradient have one pass for the same images.
    pub fn new(x: &TensorShape, groups: usize, half: bool, gradient: bool, chip: Chip) -> GroupNormKernel {
        if half {
            if let Some(cut) = OnePass::of(x, groups, gradient, chip.capability) {
                return GroupNormKernel::OnePass(cut);
            }
            if let Some(chunks) = chunks(x) {
                return GroupNormKernel::Chunks(chunks);
            }
        }
        let (pixels, channels) = cut(x);
        Slice::new(pixels, channels, channels / groups).map_or(GroupNormKernel::AnyShape, GroupNormKernel::Slices)
    }

    fn chunks(&self) -> usize {
        if let GroupNormKernel::Chunks(chunks) = self { *chunks } else { 0 }
    }

    /// Bytes for the sums of the chunks.
    pub fn scratch(&self, x: &TensorShape) -> usize {
        2 * self.chunks() * x[0] * cut(x).1 * 4
    }

    /// Bytes for the sums of images and of the chunks.
    pub fn gradient_scratch(&self, x: &TensorShape) -> usize {
        match self {
            GroupNormKernel::OnePass(_) => 0,
            kernel => (2 + 3 * kernel.chunks()) * x[0] * cut(x).1 * 4,
        }
    }
}

/// Into how many chunks of pixels a large image's norm is cut, so that all of the GPU works on it.
fn chunks(x: &TensorShape) -> Option<usize> {
    let (pixels, channels) = cut(x);
    (pixels >= 256 && channels % 8 == 0).then(|| pixels.div_ceil(256).min(16))
}

impl Lowering<'_> {
    /// `y`, mean and inverse standard deviation.
    #[rustfmt::skip] // arguments in lines
    pub(super) fn group_norm(&mut self, kernel: &GroupNormKernel, options: &NormOptions, io: &Io) -> Result<()> {
        let Io { shapes, ins, outs, element, half, .. } = io;
        let (element, half, [y, mean, inverse]) = (*element, *half, [outs[0], outs[1], outs[2]]);
        let (pixels, channels) = cut(shapes[0]);
        let (batch, per_group) = (shapes[0][0], channels / options.groups);
        let MaskArgs { threshold, purpose, kept, seed, step, elements } = self.mask(options.mask, shapes[0]);
        let (x, gamma, beta, shift) = (ins[0], ins[1], ins[2], ins.get(3).copied().unwrap_or(0));
        let (epsilon, silu) = (options.epsilon as f32, i32::from(options.silu));
        let [pixels, all, per] = [pixels, channels, per_group].map(int);
        match kernel {
            GroupNormKernel::OnePass(cut) => self.one_pass_norm(cut, options, io),
            GroupNormKernel::Chunks(chunks) => {
                let (grid, block) = ([channels.div_ceil(64), *chunks, batch], [8, 32, 1]);
                let (sums, chunks) = (io.scratch, int(*chunks));
                let arguments = GroupNormSumsArgs { sums, x, shift, pixels, channels: all, chunks };
                self.launch(KernelName::GroupNormSums, grid, block, 0, &arguments)?;
                let arguments = GroupNormApplyArgs {
                    y, mean, inverse, sums, x, gamma, beta, shift, pixels, channels: all, chunks, per_group: per,
                    epsilon, silu, threshold, purpose, kept, seed, step, elements,
                };
                self.launch(KernelName::GroupNormApply, grid, block, 2 * (64 + 2 * per_group) * 4, &arguments)
            }
            GroupNormKernel::Slices(slice) => {
                let arguments = GroupNormArgs {
                    y, mean, inverse, x, gamma, beta, shift, pixels, channels: all, slice: int(slice.slice),
                    per_group: per, epsilon, silu, threshold, purpose, kept, seed, step, elements,
                };
                let packs = if slice.repeats <= 1 { 1 } else if slice.repeats <= 4 || !half { 4 } else { 8 };
                self.launch_slices(KernelName::GroupNorm { element, kept: packs }, slice, [channels, batch], &arguments)
            }
            GroupNormKernel::AnyShape => {
                let arguments = GroupNormAnyArgs {
                    y, mean, inverse, x, gamma, beta, shift, pixels, channels: all, per_group: per, epsilon, silu,
                    threshold, purpose, kept, seed, step, elements,
                };
                let kernel = KernelName::GroupNormAny { element };
                self.launch(kernel, [options.groups, batch, 1], [256, 1, 1], 0, &arguments)
            }
        }
    }

    /// `dx`, `dgamma`, `dbeta` and, with a shift, `dshift`.
    #[rustfmt::skip] // arguments in lines
    pub(super) fn group_norm_gradient(
        &mut self,
        kernel: &GroupNormKernel,
        op: &GroupNormGradient,
        step: &Step,
        io: &Io,
    ) -> Result<()> {
        let options = &op.options;
        let Io { shapes, ins, outs, scratch, .. } = io;
        let (pixels, channels) = cut(shapes[3]);
        let (batch, per_group) = (shapes[3][0], channels / options.groups);
        let element = self.element(step.inputs[3]);
        let (dgammas, dbetas) = (*scratch, scratch + (batch * channels * 4) as u64);
        let inputs = gradient_inputs(ins);
        let (dx, dshift) = (outs[0], outs.get(3).copied().unwrap_or(0));
        let MaskArgs { threshold, purpose, kept, seed, step, elements } = self.mask(options.mask, shapes[3]);
        let silu = i32::from(options.silu);
        let [pixels, all, per] = [pixels, channels, per_group].map(int);
        match kernel {
            GroupNormKernel::OnePass(cut) => return self.one_pass_norm_gradient(cut, op, io),
            GroupNormKernel::Chunks(chunks) => {
                let (grid, block) = ([channels.div_ceil(64), *chunks, batch], [8, 32, 1]);
                let (sums, chunks) = (scratch + (2 * batch * channels * 4) as u64, int(*chunks));
                let arguments = GroupNormGradientSumsArgs {
                    sums, inputs, pixels, channels: all, chunks, per_group: per, silu, threshold, purpose, kept, seed,
                    step, elements,
                };
                self.launch(KernelName::GroupNormGradientSums, grid, block, 0, &arguments)?;
                let arguments = GroupNormGradientApplyArgs {
                    dx, dgammas, dbetas, dshift, sums, inputs, pixels, channels: all, chunks, per_group: per, silu,
                    threshold, purpose, kept, seed, step, elements,
                };
                let shared = 3 * (64 + 2 * per_group) * 4;
                self.launch(KernelName::GroupNormGradientApply, grid, block, shared, &arguments)?;
            }
            GroupNormKernel::Slices(slice) => {
                let arguments = GroupNormGradientArgs {
                    dx, dgammas, dbetas, dshift, inputs, pixels, channels: all, slice: int(slice.slice), per_group: per,
                    silu, threshold, purpose, kept, seed, step, elements,
                };
                let packs = if slice.repeats > 1 && element == ElementType::Bf16 { 4 } else { 1 };
                let kernel = KernelName::GroupNormGradient { element, kept: packs };
                self.launch_slices(kernel, slice, [channels, batch], &arguments)?;
            }
            GroupNormKernel::AnyShape => {
                let arguments = GroupNormGradientAnyArgs {
                    dx, dgammas, dbetas, dshift, inputs, pixels, channels: all, per_group: per, silu, threshold,
                    purpose, kept, seed, step, elements,
                };
                let kernel = KernelName::GroupNormGradientAny { element };
                self.launch(kernel, [options.groups, batch, 1], [256, 1, 1], 0, &arguments)?;
            }
        }
        for (partial, out) in [(dgammas, outs[1]), (dbetas, outs[2])] {
            self.sum_once(ElementType::F32, partial, [1, batch, channels], [batch, 1], out, 1.0)?;
        }
        Ok(())
    }

    /// Dropout's parameters for a tensor; without a mask nothing is dropped.
    pub(super) fn mask(&self, mask: Option<Mask>, shape: &TensorShape) -> MaskArgs {
        let (threshold, purpose, kept) = mask.map_or((0, 0, 1.0), |m| (m.threshold(), m.purpose, m.kept()));
        let elements = long(shape.numel());
        MaskArgs { threshold, purpose, kept: kept as f32, seed: self.seed, step: self.step, elements }
    }

    /// A kernel that goes by slices of channels.
    fn launch_slices<A: Arguments>(
        &mut self,
        kernel: KernelName,
        slice: &Slice,
        [channels, batch]: [usize; 2],
        arguments: &A,
    ) -> Result<()> {
        let (grid, block) = ([channels / slice.slice, batch, 1], [slice.lanes, slice.rows, 1]);
        self.launch(kernel, grid, block, slice.shared, arguments)
    }
}

/// Mean, inverse standard deviation, `dy`, `x`, `gamma`, `beta`, and the shift (0 if there is none).
pub(super) fn gradient_inputs(ins: &[Address]) -> [Address; 7] {
    let shift = ins.get(6).copied().unwrap_or(0);
    [ins[0], ins[1], ins[2], ins[3], ins[4], ins[5], shift]
}

/// Dropout's parameters: what is dropped, by which random numbers, and the factor of what is kept.
pub(super) struct MaskArgs {
    pub threshold: u32,
    pub purpose: u32,
    pub kept: f32,
    pub seed: u64,
    pub step: Address,
    pub elements: i64,
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
