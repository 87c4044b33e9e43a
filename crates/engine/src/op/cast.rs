//! Marking where 16-bit storage begins and ends.

use super::{Call, Operation, expect_inputs, only};
use crate::error::Result;
use crate::{Graph, Node, Scalar, Storage, TensorShape, Var};

/// The same values, stored otherwise. On a backend with one element type it is a copy.
#[derive(Clone, Debug)]
pub struct Cast {
    pub(crate) to: Storage,
}

impl Graph {
    /// The same values, to be stored as `to`.
    pub fn cast(&mut self, x: Var, to: Storage) -> Result<Var> {
        if self.storage(x) == to {
            return Ok(x);
        }
        self.apply1(Cast { to }, &[x])
    }
}

impl Operation for Cast {
    const NAME: &'static str = "cast";

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        expect_inputs::<1>(inputs).map(Vec::from)
    }

    fn storages(&self, _: &[Storage], _: usize) -> Vec<Storage> {
        vec![self.to]
    }

    // The gradient is cast where it is used, unless it may be stored as it is.
    fn gradient(&self, _: &mut Graph, _: &Node, dy: &[Option<Var>], _: &[bool]) -> Result<Vec<Option<Var>>> {
        Ok(vec![Some(only(dy)?)])
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        call.outputs[0].copy_from_slice(call.inputs[0]);
    }
}
