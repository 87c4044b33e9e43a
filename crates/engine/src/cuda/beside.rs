//! What runs beside the rest: weight gradients, which nobody waits for, and small operations, whose cost is their launch.

use super::driver::Event;
use super::lower::{Command, Lowering};
use crate::error::Result;
use crate::op::Op;
use crate::plan::renames;
use crate::{Graph, Node, Var};
use std::collections::HashMap;

/// Elements below which an operation is small.
const SMALL: usize = 1 << 18;

/// Whether an operation goes to the second stream.
pub(super) fn runs_aside(node: &Node, graph: &Graph) -> bool {
    let largest = |vars: &[Var]| vars.iter().map(|&v| graph.shape(v).numel()).max().unwrap_or(0);
    match &node.op {
        Op::Conv2dWeightGradient(_) => true,
        // The gradient of a bias.
        Op::Sum(op) => op.axes == (0..3) || largest(&node.inputs) <= SMALL,
        Op::Matmul(_) | Op::Binary(_) | Op::Combine(_) | Op::SliceChannels(_) | Op::Unary(_) | Op::UnaryGradient(_) => {
            largest(&node.inputs).max(largest(&node.outputs)) <= SMALL
        }
        // Joined parameters.
        Op::Concat(_) => graph.shape(node.outputs[0]).len() == 1 && largest(&node.outputs) <= SMALL,
        _ => false,
    }
}

/// Whether an output is written on the second stream by an operation of the first: sums per channel of a norm's gradient.
pub(super) fn ends_aside(node: &Node, graph: &Graph, output: Var) -> bool {
    let channels = |v: Var| graph.shape(v).last().copied();
    matches!(node.op, Op::GroupNormGradient(_)) && Some(graph.shape(output).numel()) == channels(node.inputs[3])
}

/// Moves operations that run aside to where their inputs are ready, so that they are done when they are needed.
pub(super) fn hoist(nodes: &mut Vec<Node>, graph: &Graph) {
    let mut places: HashMap<Var, usize> = HashMap::new();
    let mut keyed: Vec<(usize, usize)> = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let ready = node.inputs.iter().filter_map(|v| places.get(v)).max().copied().unwrap_or(0);
        // Large ones stay behind the gradients that others wait for.
        let large =
            matches!(node.op, Op::Conv2dWeightGradient(_)) || matches!(&node.op, Op::Sum(op) if op.axes == (0..3));
        let moves = runs_aside(node, graph) && !large || renames(node, graph);
        let place = if moves { ready } else { index };
        node.outputs.iter().for_each(|&v| {
            places.insert(v, place);
        });
        keyed.push((place, index));
    }
    keyed.sort_unstable();
    let mut taken: Vec<Option<Node>> = nodes.drain(..).map(Some).collect();
    nodes.extend(keyed.into_iter().filter_map(|(_, index)| taken[index].take()));
}

/// Lowers every step, with forks and joins; gives the first command of each.
pub(super) fn lower_all(lowering: &mut Lowering) -> Result<Vec<usize>> {
    let (plan, graph) = (lowering.plan, lowering.graph);
    let mut starts = Vec::new();
    // Of steps aside that nobody has waited for yet: step, where it ends, what it wrote.
    let mut pending: Vec<(usize, usize)> = Vec::new();
    let mut made_by: HashMap<usize, usize> = HashMap::new();
    for (index, step) in plan.steps().iter().enumerate() {
        starts.push(lowering.commands.len());
        // The latest step aside that must be done: it is late, or its result is read here.
        let read = step.inputs.iter().filter_map(|&v| made_by.get(&plan.root(v)).copied()).max();
        let wanted = if step.aside { None } else { read };
        let late = index.checked_sub(plan.leeway());
        let due = pending.iter().rposition(|&(at, _)| Some(at) <= wanted.max(late) && wanted.max(late).is_some());
        if let Some(last) = due {
            lowering.commands.push(Command::Join(pending[last].1));
            pending.drain(..=last);
        }
        if step.aside {
            lowering.commands.push(Command::Fork);
        }
        lowering.lower(step)?;
        let later = std::mem::take(&mut lowering.later);
        let ends_aside = !later.is_empty();
        if ends_aside {
            lowering.commands.push(Command::Fork);
            lowering.commands.extend(later);
        }
        if step.aside || ends_aside {
            let event = Event::new(lowering.device)?;
            pending.push((index, lowering.commands.len()));
            lowering.commands.push(Command::Back(event));
        }
        let sums = |var: Var| graph.shape(var).numel() == graph.shape(step.inputs[3]).last().copied().unwrap_or(0);
        for &var in step.outputs.iter().filter(|&&var| step.aside || ends_aside && sums(var)) {
            made_by.insert(plan.root(var), index);
        }
    }
    if let Some((_, last)) = pending.pop() {
        lowering.commands.push(Command::Join(last));
    }
    Ok(starts)
}
