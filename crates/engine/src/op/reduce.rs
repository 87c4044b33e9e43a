//! Sums over dimensions, and their adjoint.

use super::{Call, Op, Operation, expect_inputs, only};
use crate::cpu::simd::vectorized;
use crate::error::Result;
use crate::{Graph, Leaf, Node, Scalar, Storage, TensorShape, Var};
use rayon::prelude::*;
use std::ops::Range;

/// `scale` times the sum over the dimensions `axes`, which stay with size 1.
#[derive(Clone, Debug)]
pub struct Sum {
    pub(crate) axes: Range<usize>,
    pub(crate) scale: f64,
}

/// Repeats dimensions of size 1 up to `shape`.
#[derive(Clone, Debug)]
pub struct Expand {
    shape: TensorShape,
}

impl Graph {
    /// Sums the dimensions `axes`, which stay with size 1.
    pub fn sum_axes(&mut self, x: Var, axes: Range<usize>) -> Result<Var> {
        self.scaled_sum(x, axes, 1.0)
    }

    /// `scale` times the sum over `axes`. The same sum asked for again is not computed again.
    pub(crate) fn scaled_sum(&mut self, x: Var, axes: Range<usize>, scale: f64) -> Result<Var> {
        let made = match self.leaf(x) {
            Leaf::Computed(index) => *index,
            _ => 0,
        };
        let same = |node: &&Node| matches!(&node.op, Op::Sum(op) if op.axes == axes && op.scale == scale);
        if let Some(node) = self.nodes()[made..].iter().filter(same).find(|node| node.inputs[0] == x) {
            return Ok(node.outputs[0]);
        }
        // Sums of a slice of channels are a slice of the sums; its neighbours are likely to be asked for too.
        if let Some(Node { op: Op::SliceChannels(op), inputs, .. }) = self.nodes().get(made)
            && matches!(self.leaf(x), Leaf::Computed(_))
            && axes.end < self.shape(x).len()
        {
            let (whole, first, count) = (inputs[0], op.first, op.count);
            let sums = self.scaled_sum(whole, axes, scale)?;
            return self.slice_channels(sums, first, count);
        }
        self.apply1(Sum { axes, scale }, &[x])
    }

    /// The sum of all elements, as a scalar.
    pub fn sum(&mut self, x: Var) -> Result<Var> {
        let rank = self.shape(x).len();
        let sum = self.sum_axes(x, 0..rank)?;
        self.reshape(sum, [])
    }

    /// The mean of all elements, as a scalar.
    pub fn mean(&mut self, x: Var) -> Result<Var> {
        let count = self.shape(x).numel() as f64;
        let sum = self.sum(x)?;
        self.scale(sum, 1.0 / count)
    }

    /// The sum of the squares of all elements, as a scalar.
    pub fn sum_squares(&mut self, x: Var) -> Result<Var> {
        let squares = self.square(x)?;
        self.sum(squares)
    }

    /// Repeats dimensions of size 1 up to `shape`.
    pub fn expand(&mut self, x: Var, shape: impl Into<TensorShape>) -> Result<Var> {
        self.apply1(Expand { shape: shape.into() }, &[x])
    }

    /// Sums the dimensions that are 1 in `shape`: the adjoint of broadcasting.
    pub(crate) fn sum_to(&mut self, x: Var, shape: &TensorShape) -> Result<Var> {
        let from = self.shape(x).clone();
        let mut x = x;
        let mut axis = 0;
        while axis < shape.len() {
            let end = (axis..shape.len()).find(|&a| shape[a] == from[a]).unwrap_or(shape.len());
            if end > axis {
                x = self.sum_axes(x, axis..end)?;
            }
            axis = end + 1;
        }
        Ok(x)
    }
}

impl Operation for Sum {
    const NAME: &'static str = "sum";

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let [x] = expect_inputs(inputs)?;
        if self.axes.end > x.len() || self.axes.start > self.axes.end {
            return Err(format!("dimensions {:?} are not all among the {} there are", self.axes, x.len()));
        }
        let size = |(axis, &size)| if self.axes.contains(&axis) { 1 } else { size };
        Ok(vec![x.iter().enumerate().map(size).collect::<Vec<_>>().into()])
    }

    fn storages(&self, _: &[Storage], _: usize) -> Vec<Storage> {
        vec![Storage::Full]
    }

    fn gradient(&self, g: &mut Graph, node: &Node, dy: &[Option<Var>], _: &[bool]) -> Result<Vec<Option<Var>>> {
        let shape = g.shape(node.inputs[0]).clone();
        let dy = if self.scale == 1.0 { only(dy)? } else { g.scale(only(dy)?, self.scale)? };
        Ok(vec![Some(g.expand(dy, shape)?)])
    }

    fn scratch(&self, inputs: &[&TensorShape], _: &[&TensorShape]) -> usize {
        let [outer, middle, inner] = self.cut(inputs[0]);
        outer * middle.div_ceil(rows_per_part(inner)) * inner
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let [_, middle, inner] = self.cut(call.input_shapes[0]);
        sum_middle(call.inputs[0], middle, inner, call.scratch, call.outputs[0]);
        if self.scale != 1.0 {
            let scale = T::from_f64(self.scale);
            call.outputs[0].iter_mut().for_each(|sum| *sum *= scale);
        }
    }
}

/// Rows that are summed one after the other; beyond that, partial sums are summed in order. Depends on shapes only.
fn rows_per_part(inner: usize) -> usize {
    (8192 / inner.max(1)).max(64)
}

/// `[outer, middle, inner]` to `[outer, inner]`, in an order that does not depend on the number of threads.
pub(super) fn sum_middle<T: Scalar>(x: &[T], middle: usize, inner: usize, scratch: &mut [T], out: &mut [T]) {
    let rows = rows_per_part(inner);
    let parts = middle.div_ceil(rows);
    let outer = out.len() / inner;
    let scratch = &mut scratch[..outer * parts * inner];
    scratch.par_chunks_mut(inner).enumerate().for_each(|(task, partial)| {
        let (o, part) = (task / parts, task % parts);
        let first = o * middle + part * rows;
        let end = o * middle + ((part + 1) * rows).min(middle);
        sum_rows(&x[first * inner..end * inner], partial);
    });
    for (partials, out) in scratch.chunks_exact(parts * inner).zip(out.chunks_exact_mut(inner)) {
        sum_rows(partials, out);
    }
}

vectorized! {
    /// Sums rows of `out.len()` elements.
    fn sum_rows<T: Scalar>(x: &[T], out: &mut [T]) {
        if let [out] = out {
            // One column: 16 running sums.
            let mut sums = [T::ZERO; 16];
            let (chunks, rest) = x.as_chunks::<16>();
            for chunk in chunks {
                for i in 0..16 {
                    sums[i] += chunk[i];
                }
            }
            *out = sums.iter().copied().sum::<T>() + rest.iter().copied().sum::<T>();
            return;
        }
        out.fill(T::ZERO);
        for row in x.chunks_exact(out.len()) {
            out.iter_mut().zip(row).for_each(|(out, &x)| *out += x);
        }
    }
}

impl Sum {
    /// The input as `[outer, summed, inner]`.
    pub(crate) fn cut(&self, shape: &TensorShape) -> [usize; 3] {
        let product = |axes: Range<usize>| shape[axes].iter().product();
        [product(0..self.axes.start), product(self.axes.clone()), product(self.axes.end..shape.len())]
    }
}

impl Operation for Expand {
    const NAME: &'static str = "expand";

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let [x] = expect_inputs(inputs)?;
        let fits = x.len() == self.shape.len() && x.iter().zip(self.shape.iter()).all(|(&a, &b)| a == b || a == 1);
        if !fits {
            return Err(format!("cannot repeat {x} to {}", self.shape));
        }
        Ok(vec![self.shape.clone()])
    }

    fn gradient(&self, g: &mut Graph, node: &Node, dy: &[Option<Var>], _: &[bool]) -> Result<Vec<Option<Var>>> {
        let shape = g.shape(node.inputs[0]).clone();
        Ok(vec![Some(g.sum_to(only(dy)?, &shape)?)])
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let (x, from) = (call.inputs[0], call.input_shapes[0]);
        let strides: Vec<usize> =
            from.strides().iter().zip(from.iter()).map(|(&stride, &size)| if size == 1 { 0 } else { stride }).collect();
        // The innermost dimension is a copy or a fill; the outer ones are counted.
        let (inner, step) = match (self.shape.last(), strides.last()) {
            (Some(&inner), Some(&step)) => (inner, step),
            _ => (1, 0),
        };
        let outer = self.shape.len().saturating_sub(1);
        let runs = super::elementwise::CHUNK.div_ceil(inner);
        call.outputs[0].par_chunks_mut(runs * inner).enumerate().for_each(|(task, out)| {
            for (run, out) in out.chunks_mut(inner).enumerate() {
                let mut index = task * runs + run;
                let mut offset = 0;
                for axis in (0..outer).rev() {
                    offset += index % self.shape[axis] * strides[axis];
                    index /= self.shape[axis];
                }
                if step == 0 { out.fill(x[offset]) } else { out.copy_from_slice(&x[offset..offset + inner]) }
            }
        });
    }
}
