//! The same elements under another shape; costs nothing.

use super::{Call, Operation, expect_inputs, only};
use crate::error::Result;
use crate::{Graph, Node, Scalar, TensorShape, Var};

/// The same elements under another shape. Plans give it its input's memory, so it never runs.
#[derive(Clone, Debug)]
pub struct Reshape {
    shape: TensorShape,
}

impl Graph {
    /// The same elements, in row-major order, under another shape.
    pub fn reshape(&mut self, x: Var, shape: impl Into<TensorShape>) -> Result<Var> {
        let shape = shape.into();
        if shape == *self.shape(x) {
            return Ok(x);
        }
        self.apply1(Reshape { shape }, &[x])
    }
}

impl Operation for Reshape {
    const NAME: &'static str = "reshape";

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let [x] = expect_inputs(inputs)?;
        if x.checked_len() != self.shape.checked_len() {
            return Err(format!("{} has another number of elements than {x}", self.shape));
        }
        Ok(vec![self.shape.clone()])
    }

    fn gradient(&self, g: &mut Graph, node: &Node, dy: &[Option<Var>], _: &[bool]) -> Result<Vec<Option<Var>>> {
        let shape = g.shape(node.inputs[0]).clone();
        Ok(vec![Some(g.reshape(only(dy)?, shape)?)])
    }

    fn run<T: Scalar>(&self, _: &mut Call<T>) {}
}
