//! Sums over the middle of `[outer, middle, inner]`, in one pass or two; see kernels/reduce.cu.

use super::{Io, Lowering};
use crate::cuda::arguments::*;
use crate::cuda::driver::Address;
use crate::cuda::kernels::{ElementType, KernelName};
use crate::cuda::streams::SMALL;
use crate::error::Result;

/// How a sum over the middle of `[outer, middle, inner]` is cut into blocks.
#[derive(Clone, Copy, Debug)]
pub(in crate::cuda) struct SumPlan {
    sizes: [usize; 3],
    rows: usize,
    parts: usize,
}

impl SumPlan {
    pub fn new(sizes: [usize; 3]) -> SumPlan {
        let [outer, middle, inner] = sizes;
        if inner == 1 {
            let rows = 16_384;
            return SumPlan { sizes, rows, parts: middle.div_ceil(rows) };
        }
        let columns = if inner.is_multiple_of(8) { inner.div_ceil(256) } else { inner.div_ceil(32) };
        // Enough blocks for the whole GPU, each with at least 64 rows; small ones in one pass.
        let small = outer * middle * inner <= SMALL;
        let parts = if small { 1 } else { (512 / (columns * outer).max(1)).clamp(1, middle.div_ceil(64)) };
        let rows = middle.div_ceil(parts);
        SumPlan { sizes, rows, parts: middle.div_ceil(rows) }
    }

    /// Bytes for the sums of the parts.
    pub fn scratch(&self) -> usize {
        let [outer, _, inner] = self.sizes;
        outer * self.parts * inner * 4
    }
}

impl Lowering<'_> {
    /// The sum over the middle.
    pub(super) fn sum(&mut self, plan: &SumPlan, scale: f64, io: &Io) -> Result<()> {
        let [outer, middle, inner] = plan.sizes;
        let (element, x, scratch, out) = (io.element, io.ins[0], io.scratch, io.outs[0]);
        let first = if plan.parts == 1 { out } else { scratch };
        if inner == 1 {
            let once = if plan.parts == 1 { scale } else { 1.0 };
            let (width, per_part, parts) = (long(middle), long(plan.rows), int(plan.parts));
            let arguments = SumRowsArgs { out: first, x, width, per_part, parts, scale: once as f32 };
            self.launch(KernelName::SumRows { element }, [plan.parts, outer, 1], [256, 1, 1], 0, &arguments)?;
            if plan.parts > 1 {
                let (x, width) = (scratch, long(plan.parts));
                let arguments = SumRowsArgs { out, x, width, per_part: width, parts: 1, scale: scale as f32 };
                let kernel = KernelName::SumRows { element: ElementType::F32 };
                self.launch(kernel, [1, outer, 1], [256, 1, 1], 0, &arguments)?;
            }
            return Ok(());
        }
        let once = if plan.parts == 1 { scale } else { 1.0 };
        self.sum_once(element, x, [outer, middle, inner], [plan.rows, plan.parts], first, once)?;
        if plan.parts > 1 {
            self.sum_once(ElementType::F32, scratch, [outer, plan.parts, inner], [plan.parts, 1], out, scale)?;
        }
        Ok(())
    }

    /// One pass of a sum over the middle: `[outer, parts, inner]` from `[outer, middle, inner]`.
    pub(super) fn sum_once(
        &mut self,
        element: ElementType,
        x: Address,
        [outer, middle, inner]: [usize; 3],
        [rows, parts]: [usize; 2],
        out: Address,
        scale: f64,
    ) -> Result<()> {
        let scale = scale as f32;
        let arguments = SumMiddleArgs {
            out,
            x,
            middle: long(middle),
            inner: int(inner),
            rows: int(rows),
            parts: int(parts),
            scale,
        };
        if inner.is_multiple_of(8) {
            // Narrower blocks where there would be few, down to a whole 128 bytes of f32.
            let blocks = |lanes: usize| (inner / 8).div_ceil(lanes) * parts * outer;
            let mut lanes = (inner / 8).min(32);
            while lanes > 4 && blocks(lanes) < 128 {
                lanes /= 2;
            }
            let (grid, block) = ([(inner / 8).div_ceil(lanes), parts, outer], [lanes, 256 / lanes, 1]);
            return self.launch(KernelName::SumMiddleWide { element }, grid, block, 256 * 32, &arguments);
        }
        self.launch(KernelName::SumMiddle { element }, [inner.div_ceil(32), parts, outer], [32, 8, 1], 0, &arguments)
    }
}
