//! Single-head attention over a sequence of pixels.

use super::{Call, Operation, expect_dims, expect_inputs, expect_same};
use crate::cpu::gemm::{MatrixView, dot, multiply, multiply_into, pack};
use crate::cpu::simd::vectorized;
use crate::error::{Error, Result};
use crate::{Graph, Node, Scalar, Storage, TensorShape, Var};
use rayon::prelude::*;

/// `softmax(scale q k^T) v` for `[n, tokens, 3 c]`: channels of queries, keys, values. Also gives the log of each row's
/// sum, for the reverse pass.
#[derive(Clone, Debug)]
pub struct Attention {
    pub(crate) scale: f64,
}

/// The gradient of queries, keys and values, from these, the output, the row logarithms and the output's gradient.
#[derive(Clone, Debug)]
pub struct AttentionGradient {
    pub(crate) scale: f64,
}

impl Graph {
    /// `softmax(scale q k^T) v` for `[n, tokens, 3 c]`: `c` channels of queries, then of keys, then of values.
    pub fn attention(&mut self, qkv: Var, scale: f64) -> Result<Var> {
        self.apply1(Attention { scale }, &[qkv])
    }
}

/// Images, tokens and channels of the output.
fn sizes(qkv: &TensorShape) -> Result<[usize; 3], String> {
    let [n, t, width] = expect_dims("the input", qkv)?;
    if !width.is_multiple_of(3) {
        return Err(format!("{width} channels are not queries, keys and values of one width"));
    }
    Ok([n, t, width / 3])
}

pub(crate) fn known(qkv: &TensorShape) -> [usize; 3] {
    sizes(qkv).expect("shapes were checked at building time")
}

/// Queries, keys and values of one image.
fn parts<T: Scalar>(qkv: &[T], c: usize) -> [MatrixView<'_, T>; 3] {
    [0, 1, 2].map(|part| MatrixView::rows(qkv, 3 * c).from(0, part * c))
}

impl Operation for Attention {
    const NAME: &'static str = "attention";

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let [qkv] = expect_inputs(inputs)?;
        let [n, t, c] = sizes(&qkv)?;
        Ok(vec![[n, t, c].into(), [n, t].into()])
    }

    fn storages(&self, inputs: &[Storage], _: usize) -> Vec<Storage> {
        vec![inputs[0], Storage::Full]
    }

    fn gradient(&self, g: &mut Graph, node: &Node, dy: &[Option<Var>], _: &[bool]) -> Result<Vec<Option<Var>>> {
        let (Some(dy), None) = (dy[0], dy[1]) else {
            return Err(Error::NoGradient("only attention's output may be differentiated".into()));
        };
        let inputs = [node.inputs[0], node.outputs[0], node.outputs[1], dy];
        Ok(vec![Some(g.apply1(AttentionGradient { scale: self.scale }, &inputs)?)])
    }

    fn flops(&self, inputs: &[&TensorShape], _: &[&TensorShape]) -> u64 {
        let [n, t, c] = known(inputs[0]).map(|size| size as u64);
        4 * n * t * t * c
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let [_, t, c] = known(call.input_shapes[0]);
        let scale = T::from_f64(self.scale);
        let [out, logs] = &mut *call.outputs else { return };
        let images = call.inputs[0].par_chunks(3 * t * c);
        out.par_chunks_mut(t * c).zip(logs.par_chunks_mut(t)).zip(images).for_each(|((out, logs), qkv)| {
            let [q, k, v] = parts(qkv, c);
            let (keys, values) = (pack(k.transposed(), c, t), pack(v, t, c));
            let mut scores = vec![T::ZERO; t * t];
            multiply(scale, q, t, &keys, &mut scores);
            for (row, log) in scores.chunks_exact_mut(t).zip(logs) {
                *log = softmax(row);
            }
            multiply(T::ONE, MatrixView::rows(&scores, t), t, &values, out);
        });
    }
}

vectorized! {
    /// Softmax in place; gives the logarithm of the sum of exponentials.
    fn softmax<T: Scalar>(row: &mut [T]) -> T {
        // A NaN must come through: `max` starts at the first element and sums carry the rest.
        let max = row.iter().fold(row[0], |max, &x| if x > max { x } else { max });
        let mut sum = T::ZERO;
        for x in row.iter_mut() {
            *x = (*x - max).exp();
        }
        for &x in row.iter() {
            sum += x;
        }
        let inverse = T::ONE / sum;
        for x in row.iter_mut() {
            *x *= inverse;
        }
        max + sum.ln()
    }
}

impl Operation for AttentionGradient {
    const NAME: &'static str = "attention_gradient";
    const DIFFERENTIABLE: bool = false;

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let [qkv, out, logs, dy] = expect_inputs(inputs)?;
        let [n, t, c] = sizes(&qkv)?;
        expect_same("output and values", &out, &[n, t, c].into())?;
        expect_same("row logarithms", &logs, &[n, t].into())?;
        expect_same("gradient and output", &dy, &out)?;
        Ok(vec![qkv])
    }

    fn flops(&self, inputs: &[&TensorShape], _: &[&TensorShape]) -> u64 {
        let [n, t, c] = known(inputs[0]).map(|size| size as u64);
        10 * n * t * t * c
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let [_, t, c] = known(call.input_shapes[0]);
        let scale = T::from_f64(self.scale);
        let [qkv, out, logs, dy] = call.inputs[..] else { return };
        call.outputs[0].par_chunks_mut(3 * t * c).enumerate().for_each(|(n, dqkv)| {
            let [q, k, v] = parts(&qkv[n * 3 * t * c..][..3 * t * c], c);
            let [dy, out] = [dy, out].map(|x| &x[n * t * c..][..t * c]);
            let mut weights = vec![T::ZERO; t * t];
            multiply(scale, q, t, &pack(k.transposed(), c, t), &mut weights);
            // dP = dO V^T
            let mut slopes = vec![T::ZERO; t * t];
            multiply(T::ONE, MatrixView::rows(dy, c), t, &pack(v.transposed(), c, t), &mut slopes);
            for (row, (weights, slopes)) in weights.chunks_exact_mut(t).zip(slopes.chunks_exact_mut(t)).enumerate() {
                let delta = dot(&dy[row * c..][..c], &out[row * c..][..c]);
                score_slopes(weights, slopes, logs[n * t + row], delta);
            }
            let (weights, slopes) = (MatrixView::rows(&weights, t), MatrixView::rows(&slopes, t));
            multiply_into(scale, slopes, t, &pack(k, t, c), dqkv, 3 * c);
            multiply_into(scale, slopes.transposed(), t, &pack(q, t, c), &mut dqkv[c..], 3 * c);
            let dy = pack(MatrixView::rows(dy, c), t, c);
            multiply_into(T::ONE, weights.transposed(), t, &dy, &mut dqkv[2 * c..], 3 * c);
        });
    }
}

vectorized! {
    /// From scores and `dP` of one row: the softmax weights `P` and `dS = P (dP - delta)`.
    fn score_slopes<T: Scalar>(weights: &mut [T], slopes: &mut [T], log: T, delta: T) {
        for (weight, slope) in weights.iter_mut().zip(slopes) {
            *weight = (*weight - log).exp();
            *slope = *weight * (*slope - delta);
        }
    }
}
