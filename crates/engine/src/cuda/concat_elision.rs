//! Concatenation without copies: which convolutions write their results directly into the concatenated tensor. This needs no
//! GPU.

#[cfg(test)]
mod tests;

use super::cudnn::Problem;
use super::lower::GroupNormKernel;
use super::select::{CompileTarget, Kernel, Selected};
use crate::op::Op;
use crate::plan::views::{ChannelView, Views, parts};
use crate::{Graph, Var};

/// The parts that are stored in the concatenated tensor: their producer can write, and all their readers can read, pixels
/// with the larger pitch. The others are copied.
pub(super) fn find(nodes: &[Selected], graph: &Graph, outputs: &[Var], target: CompileTarget) -> Views {
    let mut views = Views::default();
    // There memory matters more than time, and a part keeps the memory of the whole.
    if graph.recompute {
        return views;
    }
    let half = |var: Var| target.half(graph, var);
    let mut suits = vec![false; graph.tensor_count()];
    for selected in nodes.iter().filter(|selected| matches!(selected.node.op, Op::Conv2d(_))) {
        let part = selected.node.outputs[0];
        // Outputs are read densely.
        suits[part.index()] = half(part) && !outputs.contains(&part);
    }
    for selected in nodes {
        for (at, input) in selected.node.inputs.iter().enumerate() {
            suits[input.index()] &= reads_apart(selected, at);
        }
    }
    // Kernels read eight values at a time.
    let eights = |var: Var| graph.shape(var).channels().is_multiple_of(8);
    let joins = nodes
        .iter()
        .map(|selected| &selected.node)
        .filter(|node| matches!(node.op, Op::Concat(_)) && half(node.outputs[0]));
    for node in joins.filter(|node| node.inputs.iter().all(|&part| eights(part))) {
        for (part, first) in parts(node, graph) {
            let once = node.inputs.iter().filter(|&&other| other == part).count() == 1;
            if suits[part.index()] && once && views.get(part).is_none() {
                views.insert(part, ChannelView { whole: node.outputs[0], first });
            }
        }
    }
    views
}

/// Removes the views that a convolution of cuDNN does not support.
pub(super) fn refuse(views: &mut Views, nodes: &[Selected], graph: &Graph, mut can: impl FnMut(&Problem) -> bool) {
    let touched =
        |selected: &Selected| selected.node.inputs.iter().chain(&selected.node.outputs).copied().collect::<Vec<Var>>();
    let mut cannot = |views: &Views, selected: &Selected| {
        touched(selected).iter().any(|&v| views.get(v).is_some())
            && selected.problem(|var| views.pitch(var, graph)).is_some_and(|problem| !can(&problem))
    };
    while let Some(selected) = nodes.iter().find(|selected| cannot(views, selected)) {
        touched(selected).into_iter().for_each(|var| views.remove(var));
    }
}

/// Whether a kernel can read its input number `at` if that is stored in another tensor.
fn reads_apart(Selected { node, kernel, .. }: &Selected, at: usize) -> bool {
    match (&node.op, kernel) {
        // Our own convolutions read only the residual with a pitch.
        (Op::Conv2d(op), kernel) => {
            at == 0 && matches!(kernel, Kernel::Cudnn(_)) || op.residual && at == node.inputs.len() - 1
        }
        (Op::Conv2dWeightGradient(_), Kernel::Cudnn(_)) => at == 0,
        (Op::GroupNorm(_), Kernel::GroupNorm(GroupNormKernel::OnePass(_))) => at == 0,
        (Op::GroupNormGradient(_), Kernel::GroupNorm(GroupNormKernel::OnePass(_))) => at == 3,
        (Op::Resample(_) | Op::Concat(_), _) => true,
        _ => false,
    }
}
