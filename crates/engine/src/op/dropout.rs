//! Dropout with counter-based masks.

use super::{Call, Operation, expect_inputs, only};
use crate::error::Result;
use crate::rng::Stream;
use crate::{Graph, Node, Scalar, TensorShape, Var};
use rayon::prelude::*;

/// Zeroes each element with probability `rate` and scales the others by `1 / (1 - rate)`.
///
/// The mask is a pure function of (seed, purpose, step, element of the whole batch): the reverse pass computes it again, nothing is kept.
#[derive(Clone, Debug)]
pub struct Dropout {
    pub(crate) mask: Mask,
}

/// Which elements are dropped: a rate and the purpose of its random bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mask {
    /// Probability that an element is dropped.
    pub rate: f64,
    /// Purpose of the random bits; each use in a network needs its own.
    pub purpose: u32,
}

impl Graph {
    /// Dropout; each use in a network needs a `purpose` of its own.
    pub fn dropout(&mut self, x: Var, rate: f64, purpose: u32) -> Result<Var> {
        if rate == 0.0 {
            return Ok(x);
        }
        self.apply1(Dropout { mask: Mask { rate, purpose } }, &[x])
    }
}

/// Elements that share one Philox block: 16 random bits each.
const PER_BLOCK: usize = 8;
const CHUNK: usize = 16_384;

impl Mask {
    /// Below this value of 16 random bits an element is dropped.
    pub(crate) fn threshold(&self) -> u32 {
        (self.rate * 65_536.0).round() as u32
    }

    /// What the others are multiplied by.
    pub(crate) fn kept(&self) -> f64 {
        1.0 / (1.0 - f64::from(self.threshold()) / 65_536.0)
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if (0.0..1.0).contains(&self.rate) { Ok(()) } else { Err(format!("rate {} is not in [0, 1)", self.rate)) }
    }

    /// Drops elements of `x` in place, the first of which has any index.
    pub(crate) fn apply_from<T: Scalar>(&self, stream: Stream, first: usize, x: &mut [T]) {
        // Up to the next whole block by itself.
        let skip = first % PER_BLOCK;
        let head = (PER_BLOCK - skip) % PER_BLOCK;
        let (start, rest) = x.split_at_mut(head.min(x.len()));
        if !start.is_empty() {
            let mut block = [T::ZERO; PER_BLOCK];
            block[skip..skip + start.len()].copy_from_slice(start);
            self.apply(stream, first - skip, &mut block);
            start.copy_from_slice(&block[skip..skip + start.len()]);
        }
        self.apply(stream, first + head, rest);
    }

    /// Drops elements of `x` in place; `first` is the index of its first, a multiple of eight.
    pub(crate) fn apply<T: Scalar>(&self, stream: Stream, first: usize, x: &mut [T]) {
        let threshold = self.threshold();
        let kept = T::from_f64(self.kept());
        for (block, x) in x.chunks_mut(PER_BLOCK).enumerate() {
            let words = stream.block((first / PER_BLOCK + block) as u64);
            for (i, x) in x.iter_mut().enumerate() {
                let bits = words[i / 2] >> (16 * (i % 2)) & 0xFFFF;
                *x = if bits < threshold { T::ZERO } else { *x * kept };
            }
        }
    }
}

impl Operation for Dropout {
    const NAME: &'static str = "dropout";

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        self.mask.check()?;
        expect_inputs::<1>(inputs).map(Vec::from)
    }

    fn gradient(&self, g: &mut Graph, _: &Node, dy: &[Option<Var>], _: &[bool]) -> Result<Vec<Option<Var>>> {
        Ok(vec![Some(g.apply1(self.clone(), &[only(dy)?])?)])
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let stream = call.stream(self.mask.purpose);
        let x = call.inputs[0];
        let first = call.first_element(x.len());
        call.outputs[0].par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK)).enumerate().for_each(|(chunk, (out, x))| {
            out.copy_from_slice(x);
            self.mask.apply_from(stream, first + chunk * CHUNK, out);
        });
    }
}
