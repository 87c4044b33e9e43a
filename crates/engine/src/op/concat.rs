//! Joining and cutting the last dimension (channels).

use super::{Call, Operation, expect_inputs, only};
use crate::error::Result;
use crate::{Graph, Node, Scalar, TensorShape, Var};
use rayon::prelude::*;

/// Joins tensors along the last dimension.
#[derive(Clone, Debug)]
pub struct Concat;

/// A range of the last dimension.
#[derive(Clone, Debug)]
pub struct SliceChannels {
    pub(crate) first: usize,
    pub(crate) count: usize,
}

impl Graph {
    /// Joins tensors along the last dimension (channels), in order.
    pub fn concat(&mut self, parts: &[Var]) -> Result<Var> {
        self.apply1(Concat, parts)
    }

    /// `count` channels from `first` on.
    pub fn slice_channels(&mut self, x: Var, first: usize, count: usize) -> Result<Var> {
        self.apply1(SliceChannels { first, count }, &[x])
    }
}

/// Pixels of one parallel task.
const PIXELS: usize = 512;

impl Operation for Concat {
    const NAME: &'static str = "concat";

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let [first, rest @ ..] = inputs else { return Err("needs at least one input".into()) };
        let Some((_, outer)) = first.split_last() else { return Err("a scalar has no channels".into()) };
        for shape in rest {
            if shape.split_last().is_none_or(|(_, other)| other != outer) {
                return Err(format!("shapes {first} and {shape} differ in more than the last dimension"));
            }
        }
        let mut shape = outer.to_vec();
        shape.push(inputs.iter().map(|s| s.last().copied().unwrap_or(0)).sum());
        Ok(vec![shape.into()])
    }

    fn gradient(&self, g: &mut Graph, node: &Node, dy: &[Option<Var>], wanted: &[bool]) -> Result<Vec<Option<Var>>> {
        let dy = only(dy)?;
        let mut first = 0;
        let mut gradients = Vec::new();
        for (&input, &wanted) in node.inputs.iter().zip(wanted) {
            let count = g.shape(input).last().copied().unwrap_or(0);
            gradients.push(if wanted { Some(g.slice_channels(dy, first, count)?) } else { None });
            first += count;
        }
        Ok(gradients)
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let widths: Vec<usize> = call.input_shapes.iter().map(|s| s.last().copied().unwrap_or(1)).collect();
        let width: usize = widths.iter().sum();
        call.outputs[0].par_chunks_mut(PIXELS * width).enumerate().for_each(|(task, out)| {
            for (pixel, out) in out.chunks_exact_mut(width).enumerate() {
                let mut rest = out;
                for (x, &width) in call.inputs.iter().zip(&widths) {
                    let (head, tail) = rest.split_at_mut(width);
                    head.copy_from_slice(&x[(task * PIXELS + pixel) * width..][..width]);
                    rest = tail;
                }
            }
        });
    }
}

impl Operation for SliceChannels {
    const NAME: &'static str = "slice_channels";

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let [x] = expect_inputs(inputs)?;
        let width = x.last().copied().unwrap_or(0);
        if self.first.checked_add(self.count).is_none_or(|end| end > width) {
            return Err(format!("has {width} channels, not {} from {} on", self.count, self.first));
        }
        let mut shape = x.to_vec();
        shape.pop();
        shape.push(self.count);
        Ok(vec![shape.into()])
    }

    fn gradient(&self, g: &mut Graph, node: &Node, dy: &[Option<Var>], _: &[bool]) -> Result<Vec<Option<Var>>> {
        let shape = g.shape(node.inputs[0]).to_vec();
        let storage = g.storage(node.inputs[0]);
        let after = shape[shape.len() - 1] - self.first - self.count;
        let mut parts = Vec::new();
        let zeros = |g: &mut Graph, count: usize| -> Result<Option<Var>> {
            let mut shape = shape.clone();
            shape.pop();
            shape.push(count);
            let len = shape.iter().product();
            if count == 0 {
                return Ok(None);
            }
            let zeros = g.constant(shape, vec![0.0; len])?;
            g.cast(zeros, storage).map(Some)
        };
        parts.extend(zeros(g, self.first)?);
        parts.push(only(dy)?);
        parts.extend(zeros(g, after)?);
        Ok(vec![Some(g.concat(&parts)?)])
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let width = call.input_shapes[0].last().copied().unwrap_or(1);
        let x = call.inputs[0];
        call.outputs[0].par_chunks_mut(PIXELS * self.count).enumerate().for_each(|(task, out)| {
            for (pixel, out) in out.chunks_exact_mut(self.count).enumerate() {
                out.copy_from_slice(&x[(task * PIXELS + pixel) * width + self.first..][..self.count]);
            }
        });
    }
}
