//! Elementwise operations.

use super::{Io, Lowering, pack_of};
use crate::TensorShape;
use crate::cuda::arguments::*;
use crate::cuda::kernels::{CopyUnit, KernelName};
use crate::error::Result;
use crate::op::{Binary, BinaryKind, Combine};
use crate::plan::Step;

impl Lowering<'_> {
    /// A linear combination of tensors.
    pub(super) fn combine(&mut self, op: &Combine, step: &Step, io: &Io) -> Result<()> {
        let Io { ins, outs, element, half, n, .. } = io;
        let (element, half, n, pack) = (*element, *half, *n, pack_of(*n));
        if step.inputs.iter().any(|&v| self.half(v) != half) {
            return Err(self.unsupported(step, "mixes bf16 and f32; cast one"));
        }
        let factors = op.coefficients.iter().map(|&factor| factor as f32);
        if ins.len() > 4 {
            let mut terms = Vec::new();
            for (address, factor) in ins.iter().zip(factors) {
                address.push(&mut terms);
                factor.push(&mut terms);
            }
            let table = self.device.upload(&terms.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<_>>())?;
            let arguments = CombineAllArgs { out: outs[0], terms: table.address, count: int(ins.len()), n: long(n) };
            self.tables.push(table);
            return self.each(KernelName::CombineAll { element, pack }, n / pack, &arguments);
        }
        // A missing term has no address and the factor 0.
        let mut arguments = CombineArgs { out: outs[0], terms: [0; 4], factors: [0.0; 4], n: long(n) };
        for (i, (&address, factor)) in ins.iter().zip(factors).enumerate() {
            (arguments.terms[i], arguments.factors[i]) = (address, factor);
        }
        self.each(KernelName::Combine { element, pack }, n / pack, &arguments)
    }

    /// A sum or product of two tensors with broadcasting.
    pub(super) fn binary(&mut self, op: &Binary, step: &Step, io: &Io) -> Result<()> {
        let Io { shapes, ins, outs, n, .. } = io;
        let n = *n;
        let [out, a, b] = [io.out_shape, shapes[0], shapes[1]].map(four);
        let (Some(out), Some(a), Some(b)) = (out, a, b) else {
            return Err(self.unsupported(step, "has more than four dimensions"));
        };
        let [out, a, b] = joined([out, a, b]);
        let pack = pack_of(out[3]);
        let arguments = BinaryArgs {
            out: outs[0],
            a: ins[0],
            b: ins[1],
            multiply: i32::from(op.kind == BinaryKind::Multiply),
            n: long(n),
            sizes: [out[1], out[2], out[3]].map(int),
            a_strides: repeated_strides(&a),
            b_strides: repeated_strides(&b),
        };
        let (a, b) = (self.element(step.inputs[0]), self.element(step.inputs[1]));
        self.each(KernelName::Binary { a, b, pack }, n / pack, &arguments)
    }

    /// The same values in another type.
    pub(super) fn cast(&mut self, step: &Step, io: &Io) -> Result<()> {
        let (out, x, from, n, pack) = (io.outs[0], io.ins[0], io.element, io.n, pack_of(io.n));
        let to = self.element(step.outputs[0]);
        if to == from {
            let unit = if io.half { CopyUnit::U16 } else { CopyUnit::U32 };
            let arguments = CopyRowsArgs { out, x, rows: 1, width: int(n), out_pitch: long(n), x_pitch: long(n) };
            self.each(KernelName::CopyRows { unit }, n, &arguments)
        } else {
            self.each(KernelName::Cast { from, to, pack }, n / pack, &CastArgs { out, x, n: long(n) })
        }
    }

    /// A tensor broadcast along some axes.
    pub(super) fn expand(&mut self, step: &Step, io: &Io) -> Result<()> {
        let (Some(sizes), Some(x)) = (four(io.out_shape), four(io.shapes[0])) else {
            return Err(self.unsupported(step, "has more than four dimensions"));
        };
        let arguments = ExpandArgs {
            out: io.outs[0],
            x: io.ins[0],
            n: long(io.n),
            sizes: [sizes[1], sizes[2], sizes[3]].map(int),
            strides: repeated_strides(&x),
        };
        self.each(KernelName::Expand { element: io.element }, io.n, &arguments)
    }
}

/// A shape with ones in front, up to four dimensions.
fn four(shape: &TensorShape) -> Option<[usize; 4]> {
    let mut sizes = [1; 4];
    let front = 4usize.checked_sub(shape.len())?;
    sizes[front..].copy_from_slice(shape);
    Some(sizes)
}

/// The same shapes with neighbouring axes merged where each shape extends along both or is broadcast along both, so that the
/// last axis is as long as possible. The first shape is broadcast nowhere.
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
fn repeated_strides(sizes: &[usize; 4]) -> [i64; 4] {
    let mut strides = [0; 4];
    let mut stride = 1;
    for axis in (0..4).rev() {
        strides[axis] = if sizes[axis] == 1 { 0 } else { long(stride) };
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
