//! Fusing before planning: what follows a group norm's gradient or a convolution becomes part of it, so that its result is
//! written once.

use super::lower::{Numbers, Resident};
use crate::op::{Function, GroupNormGradient, Op};
use crate::{Graph, Node, Var};

/// Tensors that the kernel can add to its result.
const MOST_ADDENDS: usize = 3;

/// The graph's operations with additions to, and sums over, the gradients of group norms fused into these, and rectifiers
/// into convolutions.
pub(super) fn fuse(graph: &Graph, outputs: &[Var], numbers: Numbers, capability: (i32, i32)) -> Vec<Node> {
    let mut nodes: Vec<Option<Node>> = graph.nodes().iter().cloned().map(Some).collect();
    let mut readers = vec![Vec::new(); graph.tensor_count()];
    let mut needed = vec![false; graph.tensor_count()];
    outputs.iter().for_each(|v| needed[v.index()] = true);
    let kept = needed.clone();
    for (index, node) in graph.nodes().iter().enumerate().rev() {
        if node.outputs.iter().any(|v| needed[v.index()]) {
            node.inputs.iter().for_each(|v| {
                needed[v.index()] = true;
                readers[v.index()].push(index);
            });
        } else {
            nodes[index] = None;
        }
    }
    let half = |var: Var| numbers.half(graph.precision(var));
    // Where each tensor's producer is now, if that is a gradient the kernel computes.
    let mut made = vec![None; graph.tensor_count()];
    for index in 0..nodes.len() {
        let Some(node) = &nodes[index] else { continue };
        let fused = match &node.op {
            Op::GroupNormGradient(op) => {
                let x = node.inputs[3];
                if half(x) && Resident::of(graph.shape(x), op.options.groups, true, capability).is_some() {
                    made[node.outputs[0].index()] = Some(index);
                }
                None
            }
            Op::Combine(op) if node.inputs.len() <= MOST_ADDENDS + 1 => {
                let terms = || node.inputs.iter().zip(&op.coefficients);
                let base = terms().position(|(&v, &c)| {
                    c == 1.0 && made[v.index()].is_some() && readers[v.index()].len() == 1 && !kept[v.index()]
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
        if let Some((from, node)) = fused {
            made[node.outputs[0].index()] = Some(index);
            nodes[from] = None;
            nodes[index] = Some(node);
            continue;
        }
        let Some(Node { op: Op::Sum(sum), inputs, outputs, .. }) = &nodes[index] else { continue };
        let rank = graph.shape(inputs[0]).len();
        let (factor, total, whole) = (sum.scale, outputs[0], sum.axes == (0..rank - 1));
        if let (true, Some(from)) = (whole, made[inputs[0].index()])
            && let Some(Node { op: Op::GroupNormGradient(op), outputs, .. }) = &mut nodes[from]
            && op.sums.is_none()
        {
            op.sums = Some(factor);
            outputs.push(total);
            nodes[index] = None;
        }
    }
    let mut nodes: Vec<Node> = nodes.into_iter().flatten().collect();
    split(&mut nodes, graph, outputs);
    rectify(&mut nodes, graph, outputs);
    nodes
}

/// Convolutions of which only a rectifier reads the result rectify it themselves.
fn rectify(nodes: &mut Vec<Node>, graph: &Graph, outputs: &[Var]) {
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

/// Gradients of joined channels that are only cut apart again are written as two tensors from the start.
fn split(nodes: &mut Vec<Node>, graph: &Graph, outputs: &[Var]) {
    let mut readers = vec![Vec::new(); graph.tensor_count()];
    for (index, node) in nodes.iter().enumerate() {
        node.inputs.iter().for_each(|v| readers[v.index()].push(index));
    }
    let mut gone = vec![false; nodes.len()];
    for index in 0..nodes.len() {
        let Op::GroupNormGradient(op) = &nodes[index].op else { continue };
        let dx = nodes[index].outputs[0];
        let [a, b] = readers[dx.index()][..] else { continue };
        let range = |at: usize| match &nodes[at].op {
            Op::SliceChannels(op) => Some((op.first, op.count, nodes[at].outputs[0])),
            _ => None,
        };
        let (Some(a_range), Some(b_range)) = (range(a), range(b)) else { continue };
        let (low, high) = if a_range.0 == 0 { (a_range, b_range) } else { (b_range, a_range) };
        let channels = graph.shape(dx).last().copied().unwrap_or(0);
        let whole = low.0 == 0 && low.1 == high.0 && high.0 + high.1 == channels && low.1 % 8 == 0;
        // The sums or addends mark a gradient that the resident kernel computes.
        let fused = op.sums.is_some() || !op.addends.is_empty();
        if !whole || !fused || outputs.contains(&dx) {
            continue;
        }
        if let Node { op: Op::GroupNormGradient(op), outputs, .. } = &mut nodes[index] {
            op.split = Some(low.1);
            outputs[0] = low.2;
            outputs.push(high.2);
        }
        (gone[a], gone[b]) = (true, true);
    }
    let mut gone = gone.into_iter();
    nodes.retain(|_| !gone.next().unwrap_or(false));
}

/// The gradient at `from` with `addends`, to stand at `index`: if nobody in between reads any of its results.
fn add(nodes: &[Option<Node>], from: usize, index: usize, addends: &[(Var, f64)]) -> Option<(usize, Node)> {
    let (source, sum) = (nodes[from].as_ref()?, nodes[index].as_ref()?);
    let Op::GroupNormGradient(op) = &source.op else { return None };
    let read = |node: &Node| node.inputs.iter().any(|v| source.outputs.contains(v));
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
    Some((from, Node { op, inputs, outputs, scope: source.scope.clone() }))
}
