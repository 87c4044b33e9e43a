//! Dropout with counter-based masks.

use super::{Call, Operation, expect_inputs, only};
use crate::error::Result;
use crate::rng::Stream;
use crate::{Graph, Node, Scalar, Shape, Var};
use rayon::prelude::*;

/// Zeroes each element with probability `rate` and scales the others by `1 / (1 - rate)`.
///
/// The mask is a pure function of (seed, purpose, step, element): the reverse pass computes it again, nothing is kept.
#[derive(Clone, Debug)]
pub struct Dropout {
    pub(crate) rate: f64,
    pub(crate) purpose: u32,
}

impl Graph {
    /// Dropout; each use in a network needs a `purpose` of its own.
    pub fn dropout(&mut self, x: Var, rate: f64, purpose: u32) -> Result<Var> {
        if rate == 0.0 {
            return Ok(x);
        }
        self.apply1(Dropout { rate, purpose }, &[x])
    }
}

/// Elements that share one Philox block: 16 random bits each.
const PER_BLOCK: usize = 8;
const CHUNK: usize = 16_384;

impl Dropout {
    fn mask<T: Scalar>(&self, stream: Stream, first: usize, x: &[T], out: &mut [T]) {
        let threshold = (self.rate * 65_536.0).round() as u32;
        let kept = T::from_f64(1.0 / (1.0 - f64::from(threshold) / 65_536.0));
        for (block, (out, x)) in out.chunks_mut(PER_BLOCK).zip(x.chunks(PER_BLOCK)).enumerate() {
            let words = stream.block((first / PER_BLOCK + block) as u64);
            for (i, (out, &x)) in out.iter_mut().zip(x).enumerate() {
                let bits = words[i / 2] >> (16 * (i % 2)) & 0xFFFF;
                *out = if bits < threshold { T::ZERO } else { x * kept };
            }
        }
    }
}

impl Operation for Dropout {
    const NAME: &'static str = "dropout";

    fn shapes(&self, inputs: &[&Shape]) -> Result<Vec<Shape>, String> {
        if !(0.0..1.0).contains(&self.rate) {
            return Err(format!("rate {} is not in [0, 1)", self.rate));
        }
        expect_inputs::<1>(inputs).map(Vec::from)
    }

    fn gradient(&self, g: &mut Graph, _: &Node, dy: &[Option<Var>], _: &[bool]) -> Result<Vec<Option<Var>>> {
        Ok(vec![Some(g.apply1(self.clone(), &[only(dy)?])?)])
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let stream = call.stream(self.purpose);
        let x = call.inputs[0];
        call.outputs[0].par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK)).enumerate().for_each(|(chunk, (out, x))| {
            self.mask(stream, chunk * CHUNK, x, out);
        });
    }
}
