//! Operations on each element by itself.

use super::{Io, Lowering, float};
use crate::Shape;
use crate::error::Result;
use crate::op::{Binary, BinaryKind, Combine};
use crate::plan::Step;

impl Lowering<'_> {
    /// A sum of tensors, each times a number.
    pub(super) fn combine(&mut self, op: &Combine, step: &Step, io: &Io) -> Result<()> {
        let Io { ins, outs, kind, half, n, .. } = io;
        let (kind, half, n) = (*kind, *half, *n);
        if step.inputs.iter().any(|&v| self.half(v) != half) {
            return Err(self.unsupported(step, "mixes bf16 and f32; cast one"));
        }
        let v = if n.is_multiple_of(8) { 8 } else { 1 };
        if ins.len() > 4 {
            let terms = ins.iter().zip(&op.coefficients).flat_map(|(&at, &by)| [at, float(by)]);
            let table = self.device.upload(&terms.flat_map(u64::to_le_bytes).collect::<Vec<_>>())?;
            let arguments = [outs[0], table.address, ins.len() as u64, n as u64];
            self.tables.push(table);
            return self.each(&format!("combine_all_{kind}_{v}"), n / v, &arguments);
        }
        let at = |i: usize| ins.get(i).copied().unwrap_or(0);
        let by = |i: usize| float(op.coefficients.get(i).copied().unwrap_or(0.0));
        let arguments = [outs[0], at(0), at(1), at(2), at(3), by(0), by(1), by(2), by(3), n as u64];
        self.each(&format!("combine_{kind}_{v}"), n / v, &arguments)
    }

    /// A sum or product of two tensors, either of which may be repeated along some axes.
    pub(super) fn binary(&mut self, op: &Binary, step: &Step, io: &Io) -> Result<()> {
        let Io { shapes, ins, outs, n, .. } = io;
        let n = *n;
        let [out, a, b] = [io.out_shape, shapes[0], shapes[1]].map(four);
        let (Some(out), Some(a), Some(b)) = (out, a, b) else {
            return Err(self.unsupported(step, "has more than four dimensions"));
        };
        let [out, a, b] = joined([out, a, b]);
        let v = if out[3] % 8 == 0 { 8 } else { 1 };
        let name = format!("binary_{}_{}_{v}", self.kind(step.inputs[0]), self.kind(step.inputs[1]));
        let multiply = u64::from(op.kind == BinaryKind::Multiply);
        let mut arguments = vec![outs[0], ins[0], ins[1], multiply, n as u64];
        arguments.extend(out[1..].iter().map(|&d| d as u64));
        arguments.extend(repeated_strides(&a));
        arguments.extend(repeated_strides(&b));
        self.each(&name, n / v, &arguments)
    }

    /// The same numbers in another precision.
    pub(super) fn cast(&mut self, step: &Step, io: &Io) -> Result<()> {
        let Io { ins, outs, kind, half, n, .. } = io;
        let (kind, half, n) = (*kind, *half, *n);
        let to = self.kind(step.outputs[0]);
        if to == kind {
            let width = if half { "u16" } else { "u32" };
            let arguments = [outs[0], ins[0], 1, n as u64, n as u64, n as u64];
            self.each(&format!("copy_rows_{width}"), n, &arguments)
        } else {
            let v = if n.is_multiple_of(8) { 8 } else { 1 };
            self.each(&format!("cast_{kind}_{to}_{v}"), n / v, &[outs[0], ins[0], n as u64])
        }
    }

    /// A tensor repeated along some axes.
    pub(super) fn expand(&mut self, step: &Step, io: &Io) -> Result<()> {
        let Io { shapes, ins, outs, kind, n, .. } = io;
        let n = *n;
        let (Some(out), Some(x)) = (four(io.out_shape), four(shapes[0])) else {
            return Err(self.unsupported(step, "has more than four dimensions"));
        };
        let mut arguments = vec![outs[0], ins[0], n as u64];
        arguments.extend(out[1..].iter().map(|&d| d as u64));
        arguments.extend(repeated_strides(&x));
        self.each(&format!("expand_{kind}"), n, &arguments)
    }
}

/// A shape with ones in front, up to four dimensions.
fn four(shape: &Shape) -> Option<[usize; 4]> {
    let mut sizes = [1; 4];
    let front = 4usize.checked_sub(shape.len())?;
    sizes[front..].copy_from_slice(shape);
    Some(sizes)
}

/// The same shapes with neighbouring axes made one where each shape goes along both of them or is repeated along both, so
/// that the last axis is as long as it can be. The first shape is repeated nowhere.
fn joined(shapes: [[usize; 4]; 3]) -> [[usize; 4]; 3] {
    let mut axes: Vec<[usize; 3]> = Vec::new();
    for axis in (0..4).rev() {
        let sizes = shapes.map(|shape| shape[axis]);
        match axes.last_mut() {
            _ if sizes[0] == 1 => {}
            Some(last) if (0..3).all(|i| (sizes[i] == 1) == (last[i] == 1)) => (0..3).for_each(|i| last[i] *= sizes[i]),
            _ => axes.push(sizes),
        }
    }
    std::array::from_fn(|i| std::array::from_fn(|axis| axes.get(3 - axis).map_or(1, |sizes| sizes[i])))
}

/// Strides of a shape, 0 where a dimension of size 1 is repeated.
fn repeated_strides(sizes: &[usize; 4]) -> [u64; 4] {
    let mut strides = [0; 4];
    let mut stride = 1;
    for axis in (0..4).rev() {
        strides[axis] = if sizes[axis] == 1 { 0 } else { stride as u64 };
        stride *= sizes[axis];
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_joined_where_every_shape_goes_along_both_or_none() {
        let image = [128, 32, 32, 3];
        assert_eq!(joined([image; 3]), [[1, 1, 1, 128 * 32 * 32 * 3]; 3]);
        let each = joined([image, image, [128, 1, 1, 1]]);
        assert_eq!(each, [[1, 1, 128, 3072], [1, 1, 128, 3072], [1, 1, 128, 1]]);
        let pixels = joined([image, [128, 32, 32, 1], image]);
        assert_eq!(pixels, [[1, 1, 128 * 1024, 3], [1, 1, 128 * 1024, 1], [1, 1, 128 * 1024, 3]]);
        let apart = [[2, 3, 4, 5], [2, 1, 4, 1], [1, 3, 1, 5]];
        assert_eq!(joined(apart), apart);
        assert_eq!(joined([[1, 7, 1, 5], [1, 7, 1, 5], [1, 1, 1, 5]]), [[1, 1, 7, 5], [1, 1, 7, 5], [1, 1, 1, 5]]);
    }
}
