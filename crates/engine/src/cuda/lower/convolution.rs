//! Convolutions: by cuDNN, with the epilogue in the same kernel or in one of ours.

use super::{Command, Io, Lowering, pack_of};
use crate::cpu::conv::Geometry;
use crate::cuda::arguments::*;
use crate::cuda::cudnn::{ConvEpilogue, ConvPass, ConvPlan, Pitches, Problem, suits};
use crate::cuda::kernels::KernelName;
use crate::error::Result;
use crate::op::Op;
use crate::plan::Step;
use crate::{Node, TensorShape, Var};
use std::sync::Arc;

/// What a convolution computes, and its geometry.
pub(super) fn geometry(op: &Op, shapes: &[&TensorShape]) -> (ConvPass, Geometry) {
    match op {
        Op::Conv2d(op) => (ConvPass::Forward, op.window.known(shapes[0], shapes[1])),
        Op::Conv2dInputGradient(op) => (ConvPass::InputGradient, op.window.known(&op.image, shapes[1])),
        Op::Conv2dWeightGradient(op) => (ConvPass::WeightGradient, op.window.known(shapes[0], &op.weight)),
        op => unreachable!("{} is no convolution", op.name()),
    }
}

/// A convolution for cuDNN, of dense tensors.
pub(in crate::cuda) fn problem(op: &Op, shapes: &[&TensorShape], half: bool, tf32: bool) -> Problem {
    let (kind, geometry) = geometry(op, shapes);
    // The forward scale comes after bias and residual.
    let scale = match op {
        Op::Conv2dInputGradient(op) => op.scale,
        Op::Conv2dWeightGradient(op) => op.scale,
        _ => 1.0,
    };
    let epilogue = match op {
        Op::Conv2d(op) if half && op.bias && !op.rectified && suits(&geometry) => {
            Some(ConvEpilogue { residual: op.residual, scale: op.scale as f32 })
        }
        _ => None,
    };
    Problem { kind, geometry, pitches: Pitches::dense(&geometry), half, tf32, scale: scale as f32, epilogue }
}

/// The same convolution of a node's tensors, whose pixels lie `pitch` elements apart. Gradients are never part of another
/// tensor.
pub(in crate::cuda) fn with_pitches(problem: &Problem, node: &Node, pitch: impl Fn(Var) -> usize) -> Problem {
    let mut problem = *problem;
    if problem.kind != ConvPass::InputGradient {
        problem.pitches.x = pitch(node.inputs[0]);
    }
    if let Op::Conv2d(op) = &node.op {
        problem.pitches.y = pitch(node.outputs[0]);
        if op.residual {
            problem.pitches.residual = pitch(node.inputs[node.inputs.len() - 1]);
        }
    }
    problem
}

impl Lowering<'_> {
    pub(super) fn convolution(&mut self, problem: &Problem, step: &Step, io: &Io) -> Result<()> {
        let problem = &with_pitches(problem, &self.nodes[step.node].node, |var| self.plan.pitch(var));
        let Io { ins, outs, element, half, n, scratch, .. } = io;
        let (element, half, n, scratch) = (*element, *half, *n, *scratch);
        let plan: Arc<ConvPlan> = self.cudnn.plan(problem)?;
        let addresses = match problem.kind {
            ConvPass::Forward => [ins[0], self.weight(step, half)?, outs[0]],
            ConvPass::InputGradient => [outs[0], self.weight(step, half)?, ins[0]],
            ConvPass::WeightGradient => [ins[0], outs[0], ins[1]],
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
            let pack = pack_of(problem.geometry.filters);
            let arguments = ConvEpilogueArgs {
                y: outs[0],
                bias,
                residual,
                scale: op.scale as f32,
                relu: op.rectified.into(),
                n: long(n),
                channels: int(problem.geometry.filters),
                y_pitch: int(problem.pitches.y),
                residual_pitch: int(problem.pitches.residual),
            };
            self.each(KernelName::ConvEpilogue { element, pack }, n / pack, &arguments)?;
        }
        Ok(())
    }
}
