//! Batched matrix products, and what is made of them: linear layers, `A X B^T`, channel mixing.

use super::elementwise::broadcast;
use super::{Call, Operation, expect_inputs, only};
use crate::cpu::gemm::{MatrixView, multiply, pack};
use crate::error::Result;
use crate::{Graph, Node, Scalar, TensorShape, Var};
use rayon::prelude::*;

/// `op(a) op(b)` over the last two dimensions; the others are batch dimensions, where size 1 is repeated.
#[derive(Clone, Debug)]
pub struct Matmul {
    pub(crate) transpose: [bool; 2],
}

impl Graph {
    /// `a b`, each transposed first if asked for.
    pub fn matmul(&mut self, a: Var, b: Var, transpose: [bool; 2]) -> Result<Var> {
        self.apply1(Matmul { transpose }, &[a, b])
    }

    /// `x w^T + b` for `x [m, k]`, `w [n, k]`, `b [n]`.
    pub fn linear(&mut self, x: Var, weight: Var, bias: Option<Var>) -> Result<Var> {
        let y = self.matmul(x, weight, [false, true])?;
        let Some(bias) = bias else { return Ok(y) };
        let width = self.shape(bias).numel();
        let bias = self.reshape(bias, [1, width])?;
        self.add(y, bias)
    }

    /// `A X B^T` for every image and channel: `x [n, h, w, c]`, `a [n or 1, h', h]`, `b [n or 1, w', w]`.
    pub fn separable(&mut self, x: Var, a: Var, b: Var) -> Result<Var> {
        let (sx, sa, sb) = (self.shape(x).to_vec(), self.shape(a).to_vec(), self.shape(b).to_vec());
        let ([n, h, w, c], [_, rows, _], [bn, cols, bw]) = (&sx[..], &sa[..], &sb[..]) else {
            // Wrong ranks: the product itself says what is wrong.
            return self.matmul(a, x, [false, false]);
        };
        let flat = self.reshape(x, [*n, *h, w * c])?;
        let left = self.matmul(a, flat, [false, false])?;
        let images = self.reshape(left, [*n, *rows, *w, *c])?;
        let right = self.reshape(b, [*bn, 1, *cols, *bw])?;
        self.matmul(right, images, [false, false])
    }

    /// `y = M x` over the channels of every pixel: `x [n, h, w, c]`, `m [n or 1, c', c]`.
    pub fn channel_mix(&mut self, x: Var, m: Var) -> Result<Var> {
        let (sx, sm) = (self.shape(x).to_vec(), self.shape(m).to_vec());
        let ([n, h, w, c], [_, mixed, _]) = (&sx[..], &sm[..]) else {
            return self.matmul(x, m, [false, true]);
        };
        let flat = self.reshape(x, [*n, h * w, *c])?;
        let y = self.matmul(flat, m, [false, true])?;
        self.reshape(y, [*n, *h, *w, *mixed])
    }
}

/// Sizes of one product and where each of a batch begins.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub batch: Vec<(usize, usize)>,
}

impl Matmul {
    pub(crate) fn product(&self, a: &TensorShape, b: &TensorShape) -> Result<(Product, TensorShape), String> {
        let ([a_batch @ .., a0, a1], [b_batch @ .., b0, b1]) = (&a[..], &b[..]) else {
            return Err("needs at least two dimensions on either side".into());
        };
        let (m, k) = if self.transpose[0] { (*a1, *a0) } else { (*a0, *a1) };
        let (depth, n) = if self.transpose[1] { (*b1, *b0) } else { (*b0, *b1) };
        if k != depth {
            return Err(format!("the inner sizes {k} and {depth} differ (transposed: {:?})", self.transpose));
        }
        let outer = broadcast(a_batch, b_batch)?;
        let offset = |mut index: usize, sizes: &[usize]| {
            let (mut offset, mut stride) = (0, 1);
            for (axis, &size) in sizes.iter().enumerate().rev() {
                let at = index % outer[axis];
                index /= outer[axis];
                offset += if size == 1 { 0 } else { at * stride };
                stride *= size;
            }
            offset
        };
        let batch = (0..outer.numel()).map(|i| (offset(i, a_batch) * m * k, offset(i, b_batch) * k * n)).collect();
        let shape: Vec<usize> = outer.iter().copied().chain([m, n]).collect();
        Ok((Product { m, n, k, batch }, shape.into()))
    }
}

/// Rows of one parallel task of a large product.
const ROWS_PER_TASK: usize = 64;

impl Operation for Matmul {
    const NAME: &'static str = "matmul";

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let [a, b] = expect_inputs(inputs)?;
        self.product(&a, &b).map(|(_, shape)| vec![shape])
    }

    fn gradient(&self, g: &mut Graph, node: &Node, dy: &[Option<Var>], wanted: &[bool]) -> Result<Vec<Option<Var>>> {
        let dy = only(dy)?;
        let (a, b) = (node.inputs[0], node.inputs[1]);
        let [ta, tb] = self.transpose;
        let mut gradients = vec![None, None];
        if wanted[0] {
            let da = if ta { g.matmul(b, dy, [tb, true])? } else { g.matmul(dy, b, [false, !tb])? };
            let shape = g.shape(a).clone();
            gradients[0] = Some(g.sum_to(da, &shape)?);
        }
        if wanted[1] {
            let db = if tb { g.matmul(dy, a, [true, ta])? } else { g.matmul(a, dy, [!ta, false])? };
            let shape = g.shape(b).clone();
            gradients[1] = Some(g.sum_to(db, &shape)?);
        }
        Ok(gradients)
    }

    fn flops(&self, inputs: &[&TensorShape], outputs: &[&TensorShape]) -> u64 {
        let k = inputs[0][inputs[0].len() - 1 - usize::from(self.transpose[0])];
        2 * outputs[0].numel() as u64 * k as u64
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let (product, _) =
            self.product(call.input_shapes[0], call.input_shapes[1]).expect("shapes were checked at building time");
        let Product { m, n, k, batch } = product;
        let [ta, tb] = self.transpose;
        let left =
            |at: usize| MatrixView::rows(&call.inputs[0][at..at + m * k], if ta { m } else { k }).transposed_if(ta);
        let right =
            |at: usize| MatrixView::rows(&call.inputs[1][at..at + k * n], if tb { k } else { n }).transposed_if(tb);
        if let [(a, b)] = batch[..] {
            let panels = pack(right(b), k, n);
            let a = left(a);
            call.outputs[0].par_chunks_mut(ROWS_PER_TASK * n).enumerate().for_each(|(task, out)| {
                multiply(T::ONE, a.from(task * ROWS_PER_TASK, 0), out.len() / n, &panels, out);
            });
            return;
        }
        call.outputs[0].par_chunks_mut(m * n).zip(batch).for_each(|(out, (a, b))| {
            multiply(T::ONE, left(a), m, &pack(right(b), k, n), out);
        });
    }
}
