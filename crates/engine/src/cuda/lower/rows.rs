//! Joining rows and cutting them apart.

use super::{Io, Lowering};
use crate::error::Result;

impl Lowering<'_> {
    /// Joins rows, three parts at a time.
    pub(super) fn concat(&mut self, io: &Io) -> Result<()> {
        let widths: Vec<usize> = io.shapes.iter().map(|shape| shape.last().copied().unwrap_or(1)).collect();
        let width: usize = widths.iter().sum();
        let (unit, name) = unit(io.half, &widths);
        let mut out = io.outs[0];
        for (widths, ins) in widths.chunks(3).zip(io.ins.chunks(3)) {
            let mut arguments = vec![out, (io.n / width) as u64, (width / unit) as u64];
            for part in 0..3 {
                let width = widths.get(part).copied().unwrap_or(0);
                arguments.extend([ins.get(part).copied().unwrap_or(0), (width / unit) as u64]);
            }
            let together: usize = widths.iter().sum();
            self.each(&format!("join_rows_{name}"), io.n / width * together / unit, &arguments)?;
            out += (together * if io.half { 2 } else { 4 }) as u64;
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
