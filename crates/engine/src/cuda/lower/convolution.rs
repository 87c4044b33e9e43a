//! Convolutions: by cuDNN, with what follows them in the same kernel or in a pass of ours.

use super::narrow::Narrow;
use super::{Command, Io, Lowering, Numbers, float};
use crate::cpu::conv::Geometry;
use crate::cuda::cudnn::{ConvPlan, Epilogue, Kind, Pitches, Problem, suits};
use crate::cuda::driver::Chip;
use crate::error::Result;
use crate::op::Op;
use crate::plan::Step;
use crate::views::Views;
use crate::{Graph, Node, Shape, Var};
use std::sync::Arc;

/// What a convolution computes, and its geometry.
pub(super) fn geometry(op: &Op, shapes: &[&Shape]) -> Option<(Kind, Geometry)> {
    Some(match op {
        Op::Conv2d(op) => (Kind::Forward, op.window.known(shapes[0], shapes[1])),
        Op::Conv2dInputGradient(op) => (Kind::InputGradient, op.window.known(&op.image, shapes[1])),
        Op::Conv2dWeightGradient(op) => (Kind::WeightGradient, op.window.known(shapes[0], &op.weight)),
        _ => return None,
    })
}

/// The convolution of an operation on these inputs and outputs, if it is one; `pitch` tells how far a tensor's pixels lie
/// apart.
pub(super) fn convolution(
    op: &Op,
    inputs: &[Var],
    outputs: &[Var],
    graph: &Graph,
    numbers: Numbers,
    pitch: impl Fn(Var) -> usize,
) -> Option<Problem> {
    let shapes: Vec<&Shape> = inputs.iter().map(|&v| graph.shape(v)).collect();
    let (kind, geometry) = geometry(op, &shapes)?;
    let (half, tf32) = (numbers.half(graph.precision(inputs[0])), numbers.tf32());
    // The forward scale comes after bias and residual.
    let scale = match op {
        Op::Conv2dInputGradient(op) => op.scale,
        Op::Conv2dWeightGradient(op) => op.scale,
        _ => 1.0,
    };
    let epilogue = match op {
        Op::Conv2d(op) if half && op.bias && !op.rectified && suits(&geometry) => {
            Some(Epilogue { residual: op.residual, scale: op.scale as f32 })
        }
        _ => None,
    };
    // Gradients are never part of another tensor.
    let mut pitches = Pitches::dense(&geometry);
    if kind != Kind::InputGradient {
        pitches.x = pitch(inputs[0]);
    }
    if let Op::Conv2d(op) = op {
        pitches.y = pitch(outputs[0]);
        if op.residual {
            pitches.residual = pitch(inputs[inputs.len() - 1]);
        }
    }
    Some(Problem { kind, geometry, pitches, half, tf32, scale: scale as f32, epilogue })
}

/// Whether a node is a convolution by kernels of our own; see narrow.rs.
pub(in crate::cuda) fn of_colours(node: &Node, graph: &Graph, numbers: Numbers, chip: Chip) -> bool {
    let shapes: Vec<&Shape> = node.inputs.iter().map(|&v| graph.shape(v)).collect();
    let half = node.inputs.first().is_some_and(|&v| numbers.half(graph.precision(v)));
    Narrow::of(&node.op, &shapes, half, chip).is_some()
}

/// The convolution of a node that cuDNN is yet to plan, if it is one.
pub(in crate::cuda) fn problem(
    node: &Node,
    graph: &Graph,
    numbers: Numbers,
    chip: Chip,
    views: &Views,
) -> Option<Problem> {
    if of_colours(node, graph, numbers, chip) {
        return None;
    }
    convolution(&node.op, &node.inputs, &node.outputs, graph, numbers, |var| views.pitch(var, graph))
}

impl Lowering<'_> {
    pub(super) fn convolution(&mut self, problem: &Problem, step: &Step, io: &Io) -> Result<()> {
        let Io { ins, outs, kind, half, n, scratch, .. } = io;
        let (half, n, scratch) = (*half, *n, *scratch);
        let plan: Arc<ConvPlan> = self.cudnn.plan(problem)?;
        let addresses = match problem.kind {
            Kind::Forward => [ins[0], self.weight(step, half)?, outs[0]],
            Kind::InputGradient => [outs[0], self.weight(step, half)?, ins[0]],
            Kind::WeightGradient => [ins[0], outs[0], ins[1]],
        };
        let (bias, residual) = match &step.op {
            Op::Conv2d(op) => (if op.bias { ins[2] } else { 0 }, if op.residual { ins[ins.len() - 1] } else { 0 }),
            _ => (0, 0),
        };
        let call = self.cudnn.bind(&plan, addresses, [bias, residual], scratch)?;
        self.commands.push(Command::Convolution(call));
        if let (Op::Conv2d(op), None) = (&step.op, plan.epilogue)
            && (op.bias || op.residual || op.scale != 1.0 || op.rectified)
        {
            let c = problem.geometry.filters;
            let v = if c.is_multiple_of(8) { 8 } else { 1 };
            let mut arguments = vec![outs[0], bias, residual, float(op.scale), op.rectified.into(), n as u64];
            arguments.extend([c, problem.pitches.y, problem.pitches.residual].map(|size| size as u64));
            self.each(&format!("epilogue_{kind}_{v}"), n / v, &arguments)?;
        }
        Ok(())
    }
}
