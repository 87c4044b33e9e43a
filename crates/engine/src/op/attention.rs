//! Single-head attention over a sequence of pixels.

use super::{Call, Operation, expect_dims, expect_inputs, expect_same};
use crate::cpu::gemm::{View, dot, multiply, pack};
use crate::cpu::simd::vectorized;
use crate::error::{Error, Result};
use crate::{Graph, Node, Precision, Scalar, Shape, Var};
use rayon::prelude::*;

/// `softmax(scale q k^T) v` for `q, k, v [n, tokens, c]`; also gives the log of each row's sum, for the reverse pass.
#[derive(Clone, Debug)]
pub struct Attention {
    pub(crate) scale: f64,
}

/// `dq, dk, dv` from `q, k, v`, the output, the row logarithms and the output's gradient.
#[derive(Clone, Debug)]
pub struct AttentionGradient {
    pub(crate) scale: f64,
}

impl Graph {
    /// `softmax(scale q k^T) v` for `q, k, v [n, tokens, c]`.
    pub fn attention(&mut self, q: Var, k: Var, v: Var, scale: f64) -> Result<Var> {
        self.apply1(Attention { scale }, &[q, k, v])
    }
}

fn sizes(inputs: &[Shape]) -> Result<[usize; 3], String> {
    let [n, t, c] = expect_dims("the query", &inputs[0])?;
    inputs[1..].iter().try_for_each(|s| expect_same("query, key and value", &inputs[0], s))?;
    Ok([n, t, c])
}

impl Operation for Attention {
    const NAME: &'static str = "attention";

    fn shapes(&self, inputs: &[&Shape]) -> Result<Vec<Shape>, String> {
        let inputs: [Shape; 3] = expect_inputs(inputs)?;
        let [n, t, _] = sizes(&inputs)?;
        Ok(vec![inputs[0].clone(), [n, t].into()])
    }

    fn precisions(&self, inputs: &[Precision], _: usize) -> Vec<Precision> {
        vec![inputs[0], Precision::Full]
    }

    fn gradient(&self, g: &mut Graph, node: &Node, dy: &[Option<Var>], _: &[bool]) -> Result<Vec<Option<Var>>> {
        let (Some(dy), None) = (dy[0], dy[1]) else {
            return Err(Error::NoGradient("only attention's output may be differentiated".into()));
        };
        let mut inputs = node.inputs.clone();
        inputs.extend([node.outputs[0], node.outputs[1], dy]);
        let gradients = g.apply(AttentionGradient { scale: self.scale }, &inputs)?;
        Ok(gradients.into_iter().map(Some).collect())
    }

    fn flops(&self, inputs: &[&Shape], _: &[&Shape]) -> u64 {
        4 * inputs[0].numel() as u64 * inputs[0][1] as u64
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let [_, t, c] = call.input_shapes[0].dims().expect("shapes were checked at building time");
        let scale = T::from_f64(self.scale);
        let [out, logs] = &mut *call.outputs else { return };
        let (q, k, v) = (call.inputs[0], call.inputs[1], call.inputs[2]);
        out.par_chunks_mut(t * c).zip(logs.par_chunks_mut(t)).enumerate().for_each(|(n, (out, logs))| {
            let one = n * t * c..(n + 1) * t * c;
            let keys = pack(View::rows(&k[one.clone()], c).transposed(), c, t);
            let values = pack(View::rows(&v[one.clone()], c), t, c);
            let mut scores = vec![T::ZERO; t * t];
            multiply(scale, View::rows(&q[one], c), t, &keys, &mut scores);
            for (row, log) in scores.chunks_exact_mut(t).zip(logs) {
                *log = softmax(row);
            }
            multiply(T::ONE, View::rows(&scores, t), t, &values, out);
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

    fn shapes(&self, inputs: &[&Shape]) -> Result<Vec<Shape>, String> {
        let inputs: [Shape; 6] = expect_inputs(inputs)?;
        let [n, t, _] = sizes(&inputs[..3])?;
        expect_same("output and query", &inputs[3], &inputs[0])?;
        expect_same("row logarithms", &inputs[4], &[n, t].into())?;
        expect_same("gradient and query", &inputs[5], &inputs[0])?;
        Ok(vec![inputs[0].clone(); 3])
    }

    fn flops(&self, inputs: &[&Shape], _: &[&Shape]) -> u64 {
        10 * inputs[0].numel() as u64 * inputs[0][1] as u64
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let [_, t, c] = call.input_shapes[0].dims().expect("shapes were checked at building time");
        let scale = T::from_f64(self.scale);
        let [q, k, v, out, logs, dy] = call.inputs[..] else { return };
        let [dq, dk, dv] = &mut *call.outputs else { return };
        let chunks = dq.par_chunks_mut(t * c).zip(dk.par_chunks_mut(t * c)).zip(dv.par_chunks_mut(t * c));
        chunks.enumerate().for_each(|(n, ((dq, dk), dv))| {
            let one = n * t * c..(n + 1) * t * c;
            let [q, k, v, dy, out] = [q, k, v, dy, out].map(|x| &x[one.clone()]);
            let mut weights = vec![T::ZERO; t * t];
            multiply(scale, View::rows(q, c), t, &pack(View::rows(k, c).transposed(), c, t), &mut weights);
            // dP = dO V^T
            let mut slopes = vec![T::ZERO; t * t];
            multiply(T::ONE, View::rows(dy, c), t, &pack(View::rows(v, c).transposed(), c, t), &mut slopes);
            for (row, (weights, slopes)) in weights.chunks_exact_mut(t).zip(slopes.chunks_exact_mut(t)).enumerate() {
                let delta = dot(&dy[row * c..][..c], &out[row * c..][..c]);
                score_slopes(weights, slopes, logs[n * t + row], delta);
            }
            multiply(T::ONE, View::rows(&weights, t).transposed(), t, &pack(View::rows(dy, c), t, c), dv);
            multiply(scale, View::rows(&slopes, t), t, &pack(View::rows(k, c), t, c), dq);
            multiply(scale, View::rows(&slopes, t).transposed(), t, &pack(View::rows(q, c), t, c), dk);
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
