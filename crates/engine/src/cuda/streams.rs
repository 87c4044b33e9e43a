//! The second stream: weight gradients, on which nothing depends before the update, and small operations, whose cost is their
//! launch.

use super::driver::CudaEvent;
use super::launch_batching::batchable_steps;
use super::lower::{Command, Lowering};
use super::select::Selected;
use crate::error::Result;
use crate::op::Op;
use crate::plan::renames;
use crate::{Graph, Node, Var};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Weight gradients per fork to the second stream: a fork delays the first one.
const GRADIENTS_PER_FORK: usize = 3;
/// Elements below which an operation is small.
pub(super) const SMALL: usize = 1 << 18;

/// Whether an operation goes to the second stream.
pub(super) fn runs_on_second_stream(node: &Node, graph: &Graph) -> bool {
    let largest = |vars: &[Var]| vars.iter().map(|&v| graph.shape(v).numel()).max().unwrap_or(0);
    match &node.op {
        Op::Conv2dWeightGradient(_) => true,
        // The gradient of a bias.
        Op::Sum(op) => op.axes == (0..3) || largest(&node.inputs) <= SMALL,
        Op::Matmul(_) | Op::Binary(_) | Op::Combine(_) | Op::SliceChannels(_) | Op::Unary(_) | Op::UnaryGradient(_) => {
            largest(&node.inputs).max(largest(&node.outputs)) <= SMALL
        }
        // Concatenated parameters, and parts of an embedding.
        Op::Concat(_) => graph.shape(node.outputs[0]).len() <= 2 && largest(&node.outputs) <= SMALL,
        _ => false,
    }
}

/// Whether an output is written on the second stream by an operation of the first: sums per channel of a norm's gradient.
pub(super) fn ends_on_second_stream(node: &Node, graph: &Graph, output: Var) -> bool {
    sums_of_norm(&node.op, &node.inputs, graph, output)
}

fn sums_of_norm(op: &Op, inputs: &[Var], graph: &Graph, output: Var) -> bool {
    let channels = |v: Var| graph.shape(v).last().copied();
    matches!(op, Op::GroupNormGradient(_)) && Some(graph.shape(output).numel()) == channels(inputs[3])
}

/// Moves small operations to where their inputs are ready, but those on which the first convolution does not depend behind
/// it, where they do not delay it. Those on which only such operations depend are deferred until all products among them are
/// ready. Operations of one kind follow each other, so that they can be batched.
pub(super) fn gather(nodes: &mut Vec<Selected>, graph: &Graph) {
    // Large ones stay behind the gradients on which others depend.
    let large = |node: &Node| {
        matches!(node.op, Op::Conv2dWeightGradient(_)) || matches!(&node.op, Op::Sum(op) if op.axes == (0..3))
    };
    let moves =
        |selected: &Selected| selected.second_stream && !large(&selected.node) || renames(&selected.node, graph);
    let mut waited_for = vec![false; graph.tensor_count()];
    let mut deferrable = vec![false; nodes.len()];
    for (index, selected) in nodes.iter().enumerate().rev() {
        let node = &selected.node;
        deferrable[index] = moves(selected) && node.outputs.iter().all(|v| !waited_for[v.index()]);
        if !deferrable[index] {
            node.inputs.iter().for_each(|v| waited_for[v.index()] = true);
        }
    }
    let first = nodes.iter().position(|selected| matches!(selected.node.op, Op::Conv2d(_))).unwrap_or(0);
    let mut needed_first = vec![false; graph.tensor_count()];
    let mut later = vec![true; nodes.len()];
    for (index, selected) in nodes.iter().enumerate().take(first + 1).rev() {
        let node = &selected.node;
        later[index] = moves(selected) && node.outputs.iter().all(|v| !needed_first[v.index()]);
        if !later[index] {
            node.inputs.iter().for_each(|v| needed_first[v.index()] = true);
        }
    }
    // Where each node goes, and how many moved ones come before it there; deferrable ones not before `earliest`.
    let places = |earliest: usize| {
        let mut made_at = vec![(0, 0); graph.tensor_count()];
        let mut places = Vec::new();
        for (index, selected) in nodes.iter().enumerate() {
            let node = &selected.node;
            let ready = node.inputs.iter().map(|v| made_at[v.index()]).max().unwrap_or((0, 0));
            let ready = if later[index] { ready.max((first, 0)) } else { ready };
            let ready = if deferrable[index] { ready.max((earliest, 0)) } else { ready };
            let place = if moves(selected) { (ready.0, ready.1 + 1) } else { (index, 0) };
            node.outputs.iter().for_each(|v| made_at[v.index()] = place);
            places.push(place);
        }
        places
    };
    let products = (0..nodes.len()).filter(|&index| deferrable[index] && matches!(nodes[index].node.op, Op::Matmul(_)));
    let ready = places(0);
    let together = products.map(|index| ready[index].0).max().unwrap_or(0);
    let alike = |selected: &Selected| (selected.node.op.name(), graph.shape(selected.node.outputs[0]).numel());
    let places = places(together).into_iter().zip(nodes.iter().map(alike));
    let mut keyed: Vec<_> = places.zip(0..).collect();
    keyed.sort_unstable();
    let mut taken: Vec<Option<Selected>> = nodes.drain(..).map(Some).collect();
    nodes.extend(keyed.into_iter().filter_map(|(_, index): (_, usize)| taken[index].take()));
}

/// The second stream's work.
#[derive(Default)]
struct SecondStream {
    /// Weight gradients held back for a common fork, by step.
    held: Vec<(usize, Vec<Command>)>,
    /// Work that no join has waited for yet: its first step, and the command at its end.
    pending: Vec<(usize, usize)>,
}

impl SecondStream {
    /// Forks, and enqueues what was held back and then the `commands` of a step; returns where the commands of each are.
    fn send(&mut self, lowering: &mut Lowering, index: usize, commands: Vec<Command>) -> Result<Places> {
        let first = self.held.first().map_or(index, |held| held.0);
        let mut places = Vec::new();
        lowering.commands.push(Command::Fork);
        for (step, commands) in self.held.drain(..).chain([(index, commands)]) {
            let begin = lowering.commands.len();
            lowering.commands.extend(commands);
            places.push((step, begin..lowering.commands.len()));
        }
        self.pending.push((first, lowering.commands.len()));
        lowering.commands.push(Command::Back(CudaEvent::new(lowering.device)?));
        Ok(places)
    }

    /// Makes the first stream wait for all steps up to `index`.
    fn join(&mut self, lowering: &mut Lowering, index: usize) -> Result<Places> {
        let held = self.held.first().is_some_and(|held| held.0 <= index);
        let places = if held { self.send(lowering, index, Vec::new())? } else { Vec::new() };
        if let Some(last) = self.pending.iter().rposition(|&(first, _)| first <= index) {
            lowering.commands.push(Command::Join(self.pending[last].1));
            self.pending.drain(..=last);
        }
        Ok(places)
    }
}

/// Steps and where their commands are.
type Places = Vec<(usize, Range<usize>)>;

/// Where the commands of a step are, and after how many commands, outside of a fork, its outputs are written.
pub(super) struct StepCommands {
    pub place: Range<usize>,
    pub ready: usize,
}

/// Lowers every step, with forks and joins; returns where the commands of each are.
pub(super) fn lower_all(lowering: &mut Lowering) -> Result<Vec<StepCommands>> {
    let (plan, graph) = (lowering.plan, lowering.graph);
    let steps = plan.steps();
    let mut places = Places::new();
    let mut second_stream = SecondStream::default();
    let mut made_by: HashMap<usize, usize> = HashMap::new();
    // Sums of norms' gradients that no step reads.
    let mut sums = Vec::new();
    let read: HashSet<usize> = steps.iter().flat_map(|step| &step.inputs).map(|&v| plan.root(v)).collect();
    // Until it is known, a step is ready at the end.
    let (mut ready, mut first_of_run, mut settled) = (vec![usize::MAX; steps.len()], Vec::new(), 0);
    let mut index = 0;
    while index < steps.len() {
        let run = &steps[index..index + batchable_steps(plan, index)];
        let step = &run[0];
        // The latest step of the second stream to wait for: its leeway is over, or its result is read here.
        let needed = step.inputs.iter().filter_map(|&v| made_by.get(&plan.root(v)).copied()).max();
        let wanted = if step.second_stream { None } else { needed };
        if let Some(due) = wanted.max(plan.due(index)) {
            places.extend(second_stream.join(lowering, due)?);
        }
        let begin = lowering.commands.len();
        for step in run {
            lowering.lower(step)?;
        }
        // Not if a step is several commands, which depend on each other.
        if run.len() > 1 && lowering.commands.len() - begin == run.len() {
            let commands = lowering.commands.drain(begin..).collect();
            let commands = lowering.batch(commands)?;
            lowering.commands.extend(commands);
        }
        let mut later = std::mem::take(&mut lowering.later);
        let sums_of = |&v: &Var| sums_of_norm(&step.op, &step.inputs, graph, v);
        let ends: Vec<Var> = step.outputs.iter().copied().filter(sums_of).collect();
        let sums_before = sums.len();
        if ends.iter().all(|&v| plan.outputs().contains(&v) && !read.contains(&plan.root(v))) {
            sums.append(&mut later);
        }
        let ends_on_second_stream = !later.is_empty();
        if step.second_stream {
            let commands = lowering.commands.drain(begin..).collect();
            if matches!(step.op, Op::Conv2dWeightGradient(_)) && second_stream.held.len() + 1 < GRADIENTS_PER_FORK {
                second_stream.held.push((index, commands));
            } else {
                places.extend(second_stream.send(lowering, index, commands)?);
            }
        } else {
            places.push((index, begin..lowering.commands.len()));
        }
        if ends_on_second_stream {
            places.extend(second_stream.send(lowering, index, later)?);
        }
        let written = run.iter().flat_map(|step| &step.outputs);
        for var in written.filter(|var| step.second_stream || ends_on_second_stream && ends.contains(var)) {
            made_by.insert(plan.root(*var), index);
        }
        let sent = places[settled..].iter().map(|place| place.0);
        sent.filter(|step| *step < steps.len()).for_each(|step| ready[step] = lowering.commands.len());
        settled = places.len();
        if sums.len() > sums_before {
            ready[index] = usize::MAX;
        }
        first_of_run.extend(run.iter().map(|_| index));
        index += run.len();
    }
    if !sums.is_empty() {
        let sums = lowering.batch(sums)?;
        places.extend(second_stream.send(lowering, index, sums)?);
    }
    places.extend(second_stream.join(lowering, index)?);
    let end = lowering.commands.len();
    let ready = first_of_run.into_iter().map(|first| ready[first].min(end));
    let mut made: Vec<_> = ready.map(|ready| StepCommands { place: 0..0, ready }).collect();
    for (step, range) in places {
        match made.get_mut(step).map(|step| &mut step.place) {
            Some(place) if place.start == place.end => *place = range,
            _ => {}
        }
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::{Chip, outline};
    use crate::op::Window;
    use crate::{Init, Precision, Storage};

    #[test]
    fn what_the_first_convolution_does_not_wait_for_comes_behind_it() -> Result<()> {
        let mut g = Graph::new();
        // Every image is scaled by its own factor; the embedding is used later.
        let (image, time) = (g.input("image", [4, 64, 64, 8])?, g.input("time", [4, 1])?);
        let factor = g.square(time)?;
        let factor = g.reshape(factor, [4, 1, 1, 1])?;
        let x = g.mul(image, factor)?;
        let grown = g.silu(time)?;
        let embedding = g.concat(&[grown, time])?;
        let weight = g.param("weight", [16, 3, 3, 8], Init::Constant(0.1))?;
        let matrix = g.param("matrix", [16, 2], Init::Constant(0.1))?;
        let x = g.cast(x, Storage::Half)?;
        let y = g.conv2d(x, weight, None, Window::same(3))?;
        let shift = g.linear(embedding, matrix, None)?;
        let shift = g.reshape(shift, [4, 1, 1, 16])?;
        let y = g.add(y, shift)?;
        let plan = outline(&g, &[y], Precision::Bf16, Chip::HOPPER)?;
        let names: Vec<_> = plan.steps().iter().map(|step| step.op.name()).collect();
        assert_eq!(names, ["unary", "binary", "cast", "conv2d", "unary", "concat", "matmul", "binary"]);
        Ok(())
    }
}
