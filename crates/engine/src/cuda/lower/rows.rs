//! Joining rows and cutting them apart.

use super::{Io, Lowering};
use crate::error::Result;
use crate::plan::Step;

impl Lowering<'_> {
    /// Joins rows, three parts at a time; those that already lie where they are joined are not touched.
    pub(super) fn concat(&mut self, step: &Step, io: &Io) -> Result<()> {
        let widths: Vec<usize> = io.shapes.iter().map(|shape| shape.channels()).collect();
        let width: usize = widths.iter().sum();
        let (unit, name) = unit(io.half, &[&widths[..], &io.pitches].concat());
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
            let to = io.outs[0] + (first * if io.half { 2 } else { 4 }) as u64;
            let mut arguments = vec![to, rows as u64, (width / unit) as u64];
            for part in 0..3 {
                let sizes = run.get(part).map_or([0; 2], |&part| [widths[part], io.pitches[part]]);
                arguments.push(run.get(part).map_or(0, |&part| io.ins[part]));
                arguments.extend(sizes.map(|size| (size / unit) as u64));
            }
            let together: usize = run.iter().map(|&part| widths[part]).sum();
            self.each(&format!("join_rows_{name}"), rows * together / unit, &arguments)?;
        }
        Ok(())
    }

    /// `count` columns from `first` on, of rows of `width`.
    pub(super) fn slice(&mut self, io: &Io, first: usize, count: usize, width: usize) -> Result<()> {
        let (unit, name) = unit(io.half, &[first, count, width]);
        let from = io.ins[0] + (first * if io.half { 2 } else { 4 }) as u64;
        let sizes = [io.n / count, count / unit, count / unit, width / unit].map(|n| n as u64);
        self.each(&format!("copy_rows_{name}"), io.n / unit, &[&[io.outs[0], from][..], &sizes].concat())
    }
}

/// What rows are copied in: the elements of a unit, and its name. Whole 16 bytes if all `sizes` are such.
fn unit(half: bool, sizes: &[usize]) -> (usize, &'static str) {
    let whole = if half { 8 } else { 4 };
    match sizes.iter().all(|n| n.is_multiple_of(whole)) {
        true => (whole, "uint4"),
        false => (1, if half { "u16" } else { "u32" }),
    }
}
