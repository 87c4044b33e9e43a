//! Fusing before planning: what follows a group norm's gradient or a convolution becomes part of it, so that its result is
//! written once.

use super::lower::GroupNormKernel;
use super::select::{CompileTarget, Kernel, Selected};
use crate::op::{Function, GroupNormGradient, Op};
use crate::{Graph, Node, Var};

/// Tensors that the kernel can add to its result.
const MOST_ADDENDS: usize = 3;

/// The operations that `outputs` need, each with its kernel: with additions to, and sums over, the gradients of group norms
/// fused into these, and ReLU into convolutions.
pub(super) fn fuse(graph: &Graph, outputs: &[Var], target: CompileTarget) -> Vec<Selected> {
    let mut nodes = needed(graph, outputs);
    fuse_relu(&mut nodes, graph, outputs);
    let nodes = nodes.into_iter().map(|node| Selected::new(node, graph, target)).collect();
    let mut nodes = fuse_norm_gradients(nodes, graph, outputs, target);
    split_gradients(&mut nodes, graph, outputs);
    nodes
}

/// The nodes that `outputs` depend on.
fn needed(graph: &Graph, outputs: &[Var]) -> Vec<Node> {
    let mut needed = vec![false; graph.tensor_count()];
    outputs.iter().for_each(|v| needed[v.index()] = true);
    let mut nodes = Vec::new();
    for node in graph.nodes().iter().rev() {
        if node.outputs.iter().any(|v| needed[v.index()]) {
            node.inputs.iter().for_each(|v| needed[v.index()] = true);
            nodes.push(node.clone());
        }
    }
    nodes.reverse();
    nodes
}

/// The nodes that read each tensor.
fn readers<'a>(nodes: impl Iterator<Item = &'a Node>, graph: &Graph) -> Vec<Vec<usize>> {
    let mut readers = vec![Vec::new(); graph.tensor_count()];
    for (index, node) in nodes.enumerate() {
        node.inputs.iter().for_each(|v| readers[v.index()].push(index));
    }
    readers
}

/// Fuses additions to, and sums over, the gradients of group norms into the one-pass kernel.
fn fuse_norm_gradients(nodes: Vec<Selected>, graph: &Graph, outputs: &[Var], target: CompileTarget) -> Vec<Selected> {
    let readers = readers(nodes.iter().map(|selected| &selected.node), graph);
    let mut nodes: Vec<Option<Selected>> = nodes.into_iter().map(Some).collect();
    let half = |var: Var| target.half(graph, var);
    // Where each tensor's producer is now, if the one-pass kernel computes it.
    let mut made = vec![None; graph.tensor_count()];
    for index in 0..nodes.len() {
        let Some(Selected { node, kernel, .. }) = &nodes[index] else { continue };
        let fused = match (&node.op, kernel) {
            (Op::GroupNormGradient(_), Kernel::GroupNorm(GroupNormKernel::OnePass(_))) => {
                made[node.outputs[0].index()] = Some(index);
                None
            }
            (Op::Combine(op), _) if node.inputs.len() <= MOST_ADDENDS + 1 => {
                let terms = || node.inputs.iter().zip(&op.coefficients);
                let base = terms().position(|(v, &c)| {
                    c == 1.0 && made[v.index()].is_some() && readers[v.index()].len() == 1 && !outputs.contains(v)
                });
                base.and_then(|base| {
                    let from = made[node.inputs[base].index()]?;
                    let rest: Vec<(Var, f64)> =
                        terms().enumerate().filter(|(i, _)| *i != base).map(|(_, (&v, &c))| (v, c)).collect();
                    if rest.iter().all(|&(v, _)| half(v)) { add(&nodes, from, index, &rest) } else { None }
                })
            }
            _ => None,
        };
        if let Some((from, selected)) = fused {
            made[selected.node.outputs[0].index()] = Some(index);
            nodes[from] = None;
            nodes[index] = Some(selected);
            continue;
        }
        let Some(Node { op: Op::Sum(sum), inputs, outputs, .. }) = nodes[index].as_ref().map(|s| &s.node) else {
            continue;
        };
        let rank = graph.shape(inputs[0]).len();
        let (factor, total, whole) = (sum.scale, outputs[0], sum.axes == (0..rank - 1));
        if let (true, Some(from)) = (whole, made[inputs[0].index()])
            && let Some(Node { op: Op::GroupNormGradient(op), outputs, .. }) = nodes[from].as_mut().map(|s| &mut s.node)
            && op.sums.is_none()
        {
            op.sums = Some(factor);
            outputs.push(total);
            nodes[index] = None;
        }
    }
    nodes.into_iter().flatten().collect()
}

/// Fuses ReLU into the convolution it alone reads.
fn fuse_relu(nodes: &mut Vec<Node>, graph: &Graph, outputs: &[Var]) {
    let mut readers = vec![0; graph.tensor_count()];
    nodes.iter().flat_map(|node| &node.inputs).chain(outputs).for_each(|v| readers[v.index()] += 1);
    let mut convolutions = vec![None; graph.tensor_count()];
    let mut gone = vec![false; nodes.len()];
    for index in 0..nodes.len() {
        let (input, output) = (nodes[index].inputs.first().copied(), nodes[index].outputs[0]);
        match &nodes[index].op {
            Op::Conv2d(_) if readers[output.index()] == 1 => convolutions[output.index()] = Some(index),
            Op::Unary(op) if op.function == Function::Relu => {
                let Some(at) = input.and_then(|v| convolutions[v.index()]) else { continue };
                if let Node { op: Op::Conv2d(op), outputs, .. } = &mut nodes[at] {
                    op.rectified = true;
                    outputs[0] = output;
                    gone[index] = true;
                }
            }
            _ => {}
        }
    }
    let mut gone = gone.into_iter();
    nodes.retain(|_| !gone.next().unwrap_or(false));
}

/// The gradient of a concatenation that is only sliced again is written as two tensors.
fn split_gradients(nodes: &mut Vec<Selected>, graph: &Graph, outputs: &[Var]) {
    let readers = readers(nodes.iter().map(|selected| &selected.node), graph);
    let mut gone = vec![false; nodes.len()];
    for index in 0..nodes.len() {
        let Op::GroupNormGradient(op) = &nodes[index].node.op else { continue };
        let dx = nodes[index].node.outputs[0];
        let [a, b] = readers[dx.index()][..] else { continue };
        let range = |at: usize| match &nodes[at].node.op {
            Op::SliceChannels(op) => Some((op.first, op.count, nodes[at].node.outputs[0])),
            _ => None,
        };
        let (Some(a_range), Some(b_range)) = (range(a), range(b)) else { continue };
        let (low, high) = if a_range.0 == 0 { (a_range, b_range) } else { (b_range, a_range) };
        let channels = graph.shape(dx).channels();
        let whole = low.0 == 0 && low.1 == high.0 && high.0 + high.1 == channels && low.1 % 8 == 0;
        // Only gradients that the one-pass kernel computes have sums or addends.
        let fused = op.sums.is_some() || !op.addends.is_empty();
        if !whole || !fused || outputs.contains(&dx) {
            continue;
        }
        if let Node { op: Op::GroupNormGradient(op), outputs, .. } = &mut nodes[index].node {
            op.split = Some(low.1);
            outputs[0] = low.2;
            outputs.push(high.2);
        }
        (gone[a], gone[b]) = (true, true);
    }
    let mut gone = gone.into_iter();
    nodes.retain(|_| !gone.next().unwrap_or(false));
}

/// The gradient at `from` with `addends`, to replace the node `index`, if nothing in between reads any of its results.
fn add(nodes: &[Option<Selected>], from: usize, index: usize, addends: &[(Var, f64)]) -> Option<(usize, Selected)> {
    let (selected, sum) = (nodes[from].as_ref()?, &nodes[index].as_ref()?.node);
    let source = &selected.node;
    let Op::GroupNormGradient(op) = &source.op else { return None };
    let read = |other: &Selected| other.node.inputs.iter().any(|v| source.outputs.contains(v));
    // A shift's gradient is the sum without the addends.
    let shifted = source.inputs.len() > 6;
    let taken = shifted || !op.addends.is_empty() || op.sums.is_some();
    if taken || nodes[from + 1..index].iter().flatten().any(read) {
        return None;
    }
    let mut outputs = source.outputs.clone();
    outputs[0] = sum.outputs[0];
    let mut inputs = source.inputs.clone();
    inputs.extend(addends.iter().map(|a| a.0));
    let addends = addends.iter().map(|a| a.1).collect();
    let op = GroupNormGradient { options: op.options, addends, sums: None, split: None }.into();
    let node = Node { op, inputs, outputs, scope: source.scope.clone() };
    Some((from, Selected { node, ..selected.clone() }))
}
