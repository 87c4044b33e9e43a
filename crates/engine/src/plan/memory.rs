//! Memory by liveness: which operations run, how long each tensor is needed, and where in the arena it is.

use super::{MemoryLayout, Place, Step};
use crate::error::Result;
use crate::op::Op;
use crate::{Graph, Leaf, Node, TensorShape, Var};
use std::sync::Arc;

/// The steps of a plan, and how long each tensor is needed.
pub(super) struct StepOrder {
    pub steps: Vec<Step>,
    /// The time of each step; consecutive steps of the second stream have the same.
    pub ticks: Vec<usize>,
    pub tensors: Vec<Lifetime>,
}

/// Where a tensor's memory belongs, and from which step to which it is needed.
#[derive(Clone)]
pub(super) struct Lifetime {
    /// The tensor that this one is, or is a part of; a part lives where and as long as the whole.
    pub root: usize,
    /// Units from the root's beginning on.
    within: usize,
    first: usize,
    last: usize,
    last_on_second_stream: Option<usize>,
}

/// The arena: its size, that without sharing memory, and the offset of each tensor in it.
pub(super) struct Arena {
    pub size: usize,
    pub unshared: usize,
    offsets: Vec<Option<usize>>,
}

/// Memory that is needed from step `first` to step `last`.
struct Interval {
    first: usize,
    last: usize,
    size: usize,
    offset: usize,
}

impl Interval {
    fn meets(&self, other: &Interval) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Whether an operation writes nothing, since its output is its input under another shape, or the stored copy of a parameter
/// in another type.
pub(crate) fn renames(node: &Node, graph: &Graph) -> bool {
    let of_param = || matches!(graph.leaf(node.inputs[0]), Leaf::Param(_));
    matches!(node.op, Op::Reshape(_)) || matches!(node.op, Op::Cast(_)) && of_param()
}

/// The offset of an operation's output in its input, if it is a slice of a single row.
fn slice_of_row(node: &Node, graph: &Graph) -> Option<usize> {
    let Op::SliceChannels(op) = &node.op else { return None };
    let shape = graph.shape(node.inputs[0]);
    // Kernels take eight elements at a time.
    (shape.last() == Some(&shape.numel()) && op.first.is_multiple_of(8)).then_some(op.first)
}

/// The nodes that `outputs` depend on, in order.
fn needed(graph: &Graph, nodes: &[&Node], outputs: &[Var]) -> Vec<usize> {
    let mut needed = vec![false; graph.tensor_count()];
    outputs.iter().for_each(|v| needed[v.index()] = true);
    let mut live = Vec::new();
    for (index, node) in nodes.iter().enumerate().rev() {
        if node.outputs.iter().any(|v| needed[v.index()]) {
            live.push(index);
            node.inputs.iter().for_each(|v| needed[v.index()] = true);
        }
    }
    live.reverse();
    live
}

impl StepOrder {
    pub fn new(graph: &Graph, nodes: &[&Node], outputs: &[Var], layout: &mut MemoryLayout) -> Result<StepOrder> {
        let lifetime = |root| Lifetime { root, within: 0, first: usize::MAX, last: 0, last_on_second_stream: None };
        let tensors = (0..graph.tensor_count()).map(lifetime).collect();
        let mut schedule = StepOrder { steps: Vec::new(), ticks: Vec::new(), tensors };
        for index in needed(graph, nodes, outputs) {
            if !schedule.add_views(nodes[index], graph, layout) {
                schedule.add_step(index, nodes[index], graph, layout)?;
            }
        }
        schedule.extend_lifetimes(outputs, layout.leeway);
        Ok(schedule)
    }

    /// Notes which outputs are stored in other tensors; whether the node writes nothing, since all are views.
    fn add_views(&mut self, node: &Node, graph: &Graph, layout: &MemoryLayout) -> bool {
        let tensors = &mut self.tensors;
        for &var in &node.outputs {
            if let Some(view) = layout.views.get(var) {
                let within = view.first * layout.unit(graph, var.index());
                (tensors[var.index()].root, tensors[var.index()].within) = (view.whole.index(), within);
            }
        }
        let output = node.outputs[0].index();
        if let Some(whole) = layout.views.joined(node, graph) {
            tensors[output].root = tensors[whole.index()].root;
            return true;
        }
        let Some(input) = node.inputs.first().map(|v| v.index()) else { return false };
        let computed = matches!(graph.leaf_at(tensors[input].root), Leaf::Computed(_));
        let slice = slice_of_row(node, graph).filter(|_| computed);
        if !renames(node, graph) && slice.is_none() {
            return false;
        }
        let within = tensors[input].within + slice.unwrap_or(0) * layout.unit(graph, output);
        (tensors[output].root, tensors[output].within) = (tensors[input].root, within);
        true
    }

    fn add_step(&mut self, index: usize, node: &Node, graph: &Graph, layout: &mut MemoryLayout) -> Result<()> {
        let at = self.steps.len();
        let second_stream = (layout.second_stream)(index);
        let consecutive = second_stream && self.steps.last().is_some_and(|step| step.second_stream);
        self.ticks.push(self.ticks.last().map_or(0, |tick| tick + usize::from(!consecutive)));
        for var in node.inputs.iter().chain(&node.outputs) {
            let root = self.tensors[var.index()].root;
            let root = &mut self.tensors[root];
            (root.first, root.last) = (at.min(root.first), at);
            if second_stream || node.outputs.contains(var) && (layout.ends_on_second_stream)(index, *var) {
                root.last_on_second_stream = Some(at);
            }
        }
        let input_shapes: Vec<&TensorShape> = node.inputs.iter().map(|&v| graph.shape(v)).collect();
        let output_shapes: Vec<&TensorShape> = node.outputs.iter().map(|&v| graph.shape(v)).collect();
        self.steps.push(Step {
            flops: node.op.flops(&input_shapes, &output_shapes),
            scratch: (0, (layout.scratch)(index)?),
            node: index,
            op: node.op.clone(),
            inputs: node.inputs.clone(),
            outputs: node.outputs.clone(),
            scope: node.scope.clone(),
            second_stream,
        });
        Ok(())
    }

    /// The step before which the second stream must have finished step `at`.
    fn until(&self, at: usize, leeway: usize) -> usize {
        self.ticks.partition_point(|&tick| tick < self.ticks[at] + leeway)
    }

    /// What the second stream uses is needed for longer, and outputs to the end.
    fn extend_lifetimes(&mut self, outputs: &[Var], leeway: usize) {
        for index in 0..self.tensors.len() {
            if let Some(at) = self.tensors[index].last_on_second_stream {
                self.tensors[index].last = self.until(at, leeway).max(self.tensors[index].last);
            }
        }
        for var in outputs {
            let root = self.tensors[var.index()].root;
            self.tensors[root].last = usize::MAX;
        }
    }

    /// Assigns memory to every computed tensor and every step's scratch.
    pub fn assign(&mut self, graph: &Graph, layout: &MemoryLayout) -> Arena {
        let mut intervals = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            // What is written in parts is there from the first of them on.
            let roots = step.outputs.iter().map(|v| self.tensors[v.index()].root);
            for root in roots.filter(|&root| self.tensors[root].first == at) {
                let (last, size) = (self.tensors[root].last, layout.size(graph, root));
                intervals.push((Some(root), Interval { first: at, last, size, offset: 0 }));
            }
            let last = if step.second_stream { self.until(at, layout.leeway) } else { at };
            intervals.push((None, Interval { first: at, last, size: step.scratch.1, offset: 0 }));
        }
        intervals.iter_mut().for_each(|(_, i)| i.size = i.size.next_multiple_of(layout.grain));
        let size = assign(&mut intervals.iter_mut().map(|(_, i)| i).collect::<Vec<_>>());
        let unshared = intervals.iter().filter(|(root, _)| root.is_some()).map(|(_, i)| i.size).sum();
        let mut offsets = vec![None; self.tensors.len()];
        let mut steps = self.steps.iter_mut();
        for (root, interval) in intervals {
            match root {
                Some(root) => offsets[root] = Some(interval.offset),
                None => steps.next().expect("every step has one scratch").scratch.0 = interval.offset,
            }
        }
        Arena { size, unshared, offsets }
    }

    /// The place of every tensor that has one, and the constants.
    pub fn places(&self, graph: &Graph, arena: &Arena) -> (Vec<Option<Place>>, Vec<Arc<[f64]>>) {
        let mut constants = Vec::new();
        let own: Vec<Option<Place>> = (0..self.tensors.len())
            .map(|index| match graph.leaf_at(index) {
                Leaf::Input(i) => Some(Place::Input(*i)),
                Leaf::Param(i) => Some(Place::Param(*i)),
                Leaf::Constant(values) => {
                    constants.push(values.clone());
                    Some(Place::Constant(constants.len() - 1))
                }
                Leaf::Computed(_) | Leaf::Folded => arena.offsets[index].map(Place::Arena),
            })
            .collect();
        let place = |tensor: &Lifetime| match own[tensor.root] {
            Some(Place::Arena(offset)) => Some(Place::Arena(offset + tensor.within)),
            place => place,
        };
        (self.tensors.iter().map(place).collect(), constants)
    }
}

/// Greedy by size: the largest interval first, each at the lowest offset free during its life. Gives the arena's size.
fn assign(intervals: &mut [&mut Interval]) -> usize {
    let mut order: Vec<usize> = (0..intervals.len()).filter(|&i| intervals[i].size > 0).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(intervals[i].size), intervals[i].first));
    let mut placed: Vec<usize> = Vec::new();
    let mut end = 0;
    for &index in &order {
        // `placed` is kept by offset, so one sweep finds the first gap.
        let mut offset = 0;
        for &other in &placed {
            let other = &*intervals[other];
            if !other.meets(intervals[index]) {
                continue;
            }
            if other.offset >= offset + intervals[index].size {
                break;
            }
            offset = offset.max(other.offset + other.size);
        }
        intervals[index].offset = offset;
        end = end.max(offset + intervals[index].size);
        let at = placed.partition_point(|&p| intervals[p].offset <= offset);
        placed.insert(at, index);
    }
    end
}
