//! Joined channels without copies: which convolutions write their results where these are joined. This needs no GPU.

#[cfg(test)]
mod tests;

use super::cudnn::Problem;
use super::driver::Chip;
use super::lower::{Numbers, Resident, of_colours, problem};
use crate::op::Op;
use crate::views::{View, Views, parts};
use crate::{Graph, Node, Var};

/// The parts that lie in what they are joined to: their producer can write, and all their readers can read, pixels that
/// lie farther apart than their channels. The others are copied.
pub(super) fn find(nodes: &[Node], graph: &Graph, outputs: &[Var], numbers: Numbers, chip: Chip) -> Views {
    let mut views = Views::default();
    // There memory matters more than time, and a part keeps the whole's for as long as any part is needed.
    if graph.recompute {
        return views;
    }
    let half = |var: Var| numbers.half(graph.precision(var));
    let mut suits = vec![false; graph.tensor_count()];
    for node in nodes.iter().filter(|node| matches!(node.op, Op::Conv2d(_))) {
        let part = node.outputs[0];
        // Callers read outputs as if they were by themselves.
        suits[part.index()] = half(part) && !outputs.contains(&part);
    }
    for node in nodes {
        for (at, input) in node.inputs.iter().enumerate() {
            suits[input.index()] &= reads_apart(node, at, graph, numbers, chip);
        }
    }
    // Kernels read eight values at a time.
    let eights = |var: Var| graph.shape(var).last().is_some_and(|channels| channels.is_multiple_of(8));
    let joins = nodes.iter().filter(|node| matches!(node.op, Op::Concat(_)) && half(node.outputs[0]));
    for node in joins.filter(|node| node.inputs.iter().all(|&part| eights(part))) {
        for (part, first) in parts(node, graph) {
            let once = node.inputs.iter().filter(|&&other| other == part).count() == 1;
            if suits[part.index()] && once && views.get(part).is_none() {
                views.insert(part, View { whole: node.outputs[0], first });
            }
        }
    }
    views
}

/// Gives up the parts of convolutions that cannot do with them.
pub(super) fn refuse(
    views: &mut Views,
    nodes: &[Node],
    graph: &Graph,
    numbers: Numbers,
    chip: Chip,
    mut can: impl FnMut(&Problem) -> bool,
) {
    let touched = |node: &Node| node.inputs.iter().chain(&node.outputs).copied().collect::<Vec<Var>>();
    let mut cannot = |views: &Views, node: &Node| {
        touched(node).iter().any(|&v| views.get(v).is_some())
            && problem(node, graph, numbers, chip, views).is_some_and(|problem| !can(&problem))
    };
    while let Some(node) = nodes.iter().find(|node| cannot(views, node)) {
        touched(node).into_iter().for_each(|var| views.remove(var));
    }
}

/// Whether a node can read its input number `at` if that is a part of another tensor.
fn reads_apart(node: &Node, at: usize, graph: &Graph, numbers: Numbers, chip: Chip) -> bool {
    let resident = |groups| Resident::of(graph.shape(node.inputs[at]), groups, true, chip.capability).is_some();
    // Our own convolutions read only the residual so.
    let narrow = of_colours(node, graph, numbers, chip);
    match &node.op {
        Op::Conv2d(op) => at == 0 && !narrow || op.residual && at == node.inputs.len() - 1,
        Op::Conv2dWeightGradient(_) => at == 0 && !narrow,
        Op::GroupNorm(op) => at == 0 && resident(op.options.groups),
        Op::GroupNormGradient(op) => at == 3 && resident(op.options.groups),
        Op::Resample(_) | Op::Concat(_) => true,
        _ => false,
    }
}
