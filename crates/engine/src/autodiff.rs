//! Reverse-mode gradients as a graph transformation: every gradient rule adds operations to the same graph.

use crate::error::{Error, Result};
use crate::op::Op;
use crate::{Graph, Leaf, Node, Var};
use std::collections::HashMap;

/// Whether recomputing it is cheap compared with keeping its result.
fn cheap(op: &Op) -> bool {
    matches!(op, Op::GroupNorm(_) | Op::Resample(_) | Op::Concat(_))
}

impl Graph {
    /// The gradients of the scalar `loss` with respect to each of `wrt`, as new tensors of this graph.
    ///
    /// Only operations on a way from one of `wrt` to `loss` get a reverse operation.
    pub fn gradients(&mut self, loss: Var, wrt: &[Var]) -> Result<Vec<Var>> {
        if self.shape(loss).numel() != 1 {
            return Err(Error::NoGradient(format!("the loss has shape {}, not one element", self.shape(loss))));
        }
        let mut depends = vec![false; self.tensor_count()];
        for &var in wrt {
            depends[var.index()] = true;
        }
        let forward = self.nodes().len();
        for node in self.nodes() {
            if node.inputs.iter().any(|v| depends[v.index()]) {
                for output in &node.outputs {
                    depends[output.index()] = true;
                }
            }
        }
        // What has arrived at each tensor so far; summed once, when its producer's turn comes.
        let mut arrived: Vec<Vec<Var>> = vec![Vec::new(); self.tensor_count()];
        let one = self.constant(self.shape(loss).clone(), vec![1.0])?;
        arrived[loss.index()].push(one);
        let mut again = HashMap::new();
        for index in (0..forward).rev() {
            let node = self.nodes()[index].clone();
            if node.outputs.iter().all(|v| arrived[v.index()].is_empty() || !depends[v.index()]) {
                continue;
            }
            let wanted: Vec<bool> = node.inputs.iter().map(|v| depends[v.index()]).collect();
            let result = self.scoped_as(&node.scope.clone(), |g| {
                let mut dy = Vec::with_capacity(node.outputs.len());
                for output in &node.outputs {
                    let total = g.total(&arrived[output.index()])?;
                    if wrt.contains(output) {
                        arrived[output.index()] = total.into_iter().collect();
                    }
                    dy.push(total);
                }
                let mut read = node.clone();
                for input in &mut read.inputs {
                    *input = g.again(*input, &mut again)?;
                }
                node.op.gradient(g, &read, &dy, &wanted)
            })?;
            for ((input, gradient), wanted) in node.inputs.iter().zip(result).zip(wanted) {
                if let (Some(gradient), true) = (gradient, wanted) {
                    debug_assert_eq!(self.shape(gradient), self.shape(*input), "gradient of {}", node.op.name());
                    // A parameter's gradient goes to the optimiser, which reads either.
                    let gradient = match self.leaf(*input) {
                        Leaf::Param(_) => gradient,
                        _ => self.cast(gradient, self.storage(*input))?,
                    };
                    arrived[input.index()].push(gradient);
                }
            }
        }
        wrt.iter()
            .map(|&var| {
                let terms = arrived[var.index()].clone();
                self.total(&terms)?
                    .ok_or_else(|| Error::NoGradient(format!("{} does not reach the loss", self.describe(var))))
            })
            .collect()
    }

    /// The gradients of `loss` with respect to every trainable parameter, in the order of their declaration.
    pub fn parameter_gradients(&mut self, loss: Var) -> Result<Vec<Var>> {
        let trainable = self.trainable();
        self.gradients(loss, &trainable)
    }

    /// A tensor that reverse operations read instead of `var`: the same values, computed again if that is cheap.
    ///
    /// Results that no reverse operation reads are neither kept nor recomputed: plans leave out what is not needed.
    fn again(&mut self, var: Var, made: &mut HashMap<Var, Var>) -> Result<Var> {
        if let Some(&again) = made.get(&var) {
            return Ok(again);
        }
        let Leaf::Computed(index) = *self.leaf(var) else { return Ok(var) };
        let Node { op, mut inputs, outputs, scope } = self.nodes()[index].clone();
        if !self.recompute || !cheap(&op) {
            return Ok(var);
        }
        for input in &mut inputs {
            *input = self.again(*input, made)?;
        }
        let second = self.scoped_as(&scope, |g| g.apply(op, &inputs))?;
        made.extend(outputs.into_iter().zip(second));
        Ok(made[&var])
    }

    fn total(&mut self, terms: &[Var]) -> Result<Option<Var>> {
        match terms {
            [] => Ok(None),
            [one] => Ok(Some(*one)),
            many => self.combine(&many.iter().map(|&v| (1.0, v)).collect::<Vec<_>>()).map(Some),
        }
    }

    /// Like [`Graph::scoped`], from the outermost level.
    fn scoped_as<R>(&mut self, scope: &str, build: impl FnOnce(&mut Graph) -> Result<R>) -> Result<R> {
        let outer = self.replace_scope(scope.to_string());
        let result = build(self);
        self.replace_scope(outer);
        result
    }
}
