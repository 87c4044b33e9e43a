//! Concatenation and slices of channels.

use super::{Io, Lowering};
use crate::cuda::arguments::*;
use crate::cuda::kernels::{CopyUnit, KernelName};
use crate::error::Result;
use crate::plan::Step;

impl Lowering<'_> {
    /// Concatenates rows, three parts at a time; parts that are already stored there are not copied.
    pub(super) fn concat(&mut self, step: &Step, io: &Io) -> Result<()> {
        let widths: Vec<usize> = io.shapes.iter().map(|shape| shape.channels()).collect();
        let width: usize = widths.iter().sum();
        let (size, unit) = unit(io.half, &[&widths[..], &io.pitches].concat());
        let rows = io.n / width;
        let mut at = 0;
        while at < widths.len() {
            let apart = |part: &usize| !self.plan.lies_in(step.inputs[*part], step.outputs[0]);
            let run: Vec<usize> = (at..widths.len()).take_while(apart).take(3).collect();
            let first: usize = widths[..at].iter().sum();
            at += run.len().max(1);
            if run.is_empty() {
                continue;
            }
            // A missing part has no address and no width.
            let part = |i: usize| match run.get(i) {
                Some(&part) => (io.ins[part], int(widths[part] / size), int(io.pitches[part] / size)),
                None => (0, 0, 0),
            };
            let ((a, a_width, a_pitch), (b, b_width, b_pitch), (c, c_width, c_pitch)) = (part(0), part(1), part(2));
            let (out, pitch) = (io.outs[0] + (first * io.element.bytes()) as u64, long(width / size));
            #[rustfmt::skip]
            let arguments = JoinRowsArgs {
                out, rows: long(rows), pitch, a, a_width, a_pitch, b, b_width, b_pitch, c, c_width, c_pitch,
            };
            let together: usize = run.iter().map(|&part| widths[part]).sum();
            self.each(KernelName::JoinRows { unit }, rows * together / size, &arguments)?;
        }
        Ok(())
    }

    /// `count` columns from `first` on, of rows of `width`.
    pub(super) fn slice(&mut self, io: &Io, first: usize, count: usize, width: usize) -> Result<()> {
        let (size, unit) = unit(io.half, &[first, count, width]);
        let arguments = CopyRowsArgs {
            out: io.outs[0],
            x: io.ins[0] + (first * io.element.bytes()) as u64,
            rows: long(io.n / count),
            width: int(count / size),
            out_pitch: long(count / size),
            x_pitch: long(width / size),
        };
        self.each(KernelName::CopyRows { unit }, io.n / size, &arguments)
    }
}

/// What rows are copied in: the elements of a unit, and its type. Whole 16 bytes if all `sizes` are such.
fn unit(half: bool, sizes: &[usize]) -> (usize, CopyUnit) {
    let whole = if half { 8 } else { 4 };
    match sizes.iter().all(|n| n.is_multiple_of(whole)) {
        true => (whole, CopyUnit::Sixteen),
        false => (1, if half { CopyUnit::U16 } else { CopyUnit::U32 }),
    }
}
