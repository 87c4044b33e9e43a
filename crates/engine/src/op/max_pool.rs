//! Max pooling.

use super::{Call, Operation, expect_dims, expect_inputs, expect_same, only};
use crate::cpu::simd::vectorized;
use crate::error::Result;
use crate::{Graph, Node, Scalar, TensorShape, Var};
use rayon::prelude::*;

/// The maximum over windows of `kernel` x `kernel`; padding never wins.
#[derive(Clone, Debug)]
pub struct MaxPool {
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) pad: usize,
}

/// Hands `dy` to the first maximum of each window.
#[derive(Clone, Debug)]
pub struct MaxPoolGradient {
    pub(crate) pool: MaxPool,
}

impl Graph {
    /// Max pooling.
    pub fn max_pool(&mut self, x: Var, kernel: usize, stride: usize, pad: usize) -> Result<Var> {
        self.apply1(MaxPool { kernel, stride, pad }, &[x])
    }
}

impl MaxPool {
    fn output(&self, x: &TensorShape) -> Result<TensorShape, String> {
        let [n, h, w, c] = expect_dims("the image", x)?;
        let MaxPool { kernel, stride, pad } = *self;
        if stride == 0 || pad >= kernel {
            return Err(format!("a window of {kernel}, stride {stride} and padding {pad} make no pooling"));
        }
        let size = |input: usize| (input + 2 * pad).checked_sub(kernel).map(|room| room / stride + 1);
        let (Some(oh), Some(ow)) = (size(h), size(w)) else {
            return Err(format!("a window of {kernel} does not fit {h} x {w} pixels with padding {pad}"));
        };
        Ok([n, oh, ow, c].into())
    }

    /// Input coordinates of window `o`.
    fn window(&self, o: usize, size: usize) -> std::ops::Range<usize> {
        (o * self.stride).saturating_sub(self.pad)..(o * self.stride + self.kernel - self.pad).min(size)
    }

    /// The flat index of the first maximum of the window at (`y`, `x`) in an image, for one channel.
    fn argmax<T: Scalar>(&self, image: &[T], [h, w, c]: [usize; 3], y: usize, x: usize, channel: usize) -> usize {
        let mut best = usize::MAX;
        for iy in self.window(y, h) {
            for ix in self.window(x, w) {
                let at = (iy * w + ix) * c + channel;
                // A NaN wins and stays.
                let wins = best == usize::MAX || image[at] > image[best] || image[at].partial_cmp(&image[at]).is_none();
                if wins {
                    best = at;
                }
            }
        }
        best
    }
}

impl Operation for MaxPool {
    const NAME: &'static str = "max_pool";

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let [x] = expect_inputs(inputs)?;
        self.output(&x).map(|shape| vec![shape])
    }

    fn gradient(&self, g: &mut Graph, node: &Node, dy: &[Option<Var>], _: &[bool]) -> Result<Vec<Option<Var>>> {
        Ok(vec![Some(g.apply1(MaxPoolGradient { pool: self.clone() }, &[node.inputs[0], only(dy)?])?)])
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let [_, h, w, c] = call.input_shapes[0].dims().expect("shapes were checked at building time");
        let [_, oh, ow, _] = call.output_shapes[0].dims().expect("shapes were checked at building time");
        let x = call.inputs[0];
        call.outputs[0].par_chunks_mut(ow * c).enumerate().for_each(|(row, out)| {
            let image = &x[row / oh * h * w * c..][..h * w * c];
            for (column, out) in out.chunks_exact_mut(c).enumerate() {
                let (rows, columns) = (self.window(row % oh, h), self.window(column, w));
                // A window has at least one pixel inside, since the padding is smaller than the kernel.
                out.copy_from_slice(&image[(rows.start * w + columns.start) * c..][..c]);
                for iy in rows {
                    for ix in columns.clone() {
                        keep_larger(&image[(iy * w + ix) * c..][..c], out);
                    }
                }
            }
        });
    }
}

vectorized! {
    /// The larger of each pair; a NaN wins and stays.
    fn keep_larger<T: Scalar>(x: &[T], out: &mut [T]) {
        for (out, &x) in out.iter_mut().zip(x) {
            *out = if x > *out || x.partial_cmp(&x).is_none() { x } else { *out };
        }
    }
}

impl Operation for MaxPoolGradient {
    const NAME: &'static str = "max_pool_gradient";
    const DIFFERENTIABLE: bool = false;

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let [x, dy] = expect_inputs(inputs)?;
        expect_same("gradient and output", &dy, &self.pool.output(&x)?)?;
        Ok(vec![x])
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let [_, h, w, c] = call.input_shapes[0].dims().expect("shapes were checked at building time");
        let [_, oh, ow, _] = call.input_shapes[1].dims().expect("shapes were checked at building time");
        let (x, dy) = (call.inputs[0], call.inputs[1]);
        call.outputs[0].par_chunks_mut(h * w * c).enumerate().for_each(|(n, dx)| {
            let image = &x[n * h * w * c..][..h * w * c];
            dx.fill(T::ZERO);
            for (i, &dy) in dy[n * oh * ow * c..][..oh * ow * c].iter().enumerate() {
                dx[self.pool.argmax(image, [h, w, c], i / c / ow, i / c % ow, i % c)] += dy;
            }
        });
    }
}
