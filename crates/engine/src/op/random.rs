//! Random tensors: pure functions of (seed, purpose, step, element of the whole batch).

use super::{Call, Operation, expect_inputs};
use crate::error::Result;
use crate::{Graph, Scalar, TensorShape, Var};
use rayon::prelude::*;

/// A distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RandomKind {
    /// Standard normal.
    Normal,
    /// Uniform in (0, 1).
    Uniform,
    /// Nothing random: each element's place in the whole batch's tensor.
    Place,
}

/// A random tensor, drawn anew for every step.
#[derive(Clone, Debug)]
pub struct Random {
    pub(crate) kind: RandomKind,
    shape: TensorShape,
    pub(crate) purpose: u32,
}

impl Graph {
    /// Standard normal noise.
    pub fn random_normal(&mut self, shape: impl Into<TensorShape>, purpose: u32) -> Result<Var> {
        self.apply1(Random { kind: RandomKind::Normal, shape: shape.into(), purpose }, &[])
    }

    /// Uniform noise in (0, 1).
    pub fn random_uniform(&mut self, shape: impl Into<TensorShape>, purpose: u32) -> Result<Var> {
        self.apply1(Random { kind: RandomKind::Uniform, shape: shape.into(), purpose }, &[])
    }

    /// The place of each element in the whole batch, of which a run may compute a part.
    pub fn place_in_batch(&mut self, shape: impl Into<TensorShape>) -> Result<Var> {
        self.apply1(Random { kind: RandomKind::Place, shape: shape.into(), purpose: 0 }, &[])
    }
}

const CHUNK: usize = 4096;

impl Operation for Random {
    const NAME: &'static str = "random";
    const DIFFERENTIABLE: bool = false;

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        expect_inputs::<0>(inputs)?;
        Ok(vec![self.shape.clone()])
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let stream = call.stream(self.purpose);
        let first = call.first_element(call.outputs[0].len());
        call.outputs[0].par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, out)| {
            // Drawn in f32 whatever the element type, so that an f64 run sees the same noise.
            let mut values = [0.0f32; CHUNK];
            let values = &mut values[..out.len()];
            let first = (first + chunk * CHUNK) as u64;
            match self.kind {
                RandomKind::Normal => stream.fill_normal(first, values),
                RandomKind::Uniform => stream.fill_uniform(first, values),
                RandomKind::Place => values.iter_mut().zip(first..).for_each(|(value, place)| *value = place as f32),
            }
            out.iter_mut().zip(values).for_each(|(out, v)| *out = T::from_f64(f64::from(*v)));
        });
    }
}
