//! The plan: which operations run, in which order, and where in one arena every tensor lives.

mod disjoint;
mod memory;
pub(crate) mod views;

use crate::cpu::NodeTime;
use crate::error::{Error, Result, suggest};
use crate::op::Op;
use crate::plan::views::Views;
use crate::{Graph, Leaf, Node, ParamSpec, Storage, TensorShape, Var};
use memory::StepOrder;
pub(crate) use memory::renames;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Where a tensor's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// From this element of the arena on.
    Arena(usize),
    /// An input.
    Input(usize),
    /// A parameter.
    Param(usize),
    /// A constant.
    Constant(usize),
}

/// One operation of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Its place among the nodes that were planned.
    pub node: usize,
    pub op: Op,
    pub inputs: Vec<Var>,
    pub outputs: Vec<Var>,
    pub scope: Arc<str>,
    pub flops: u64,
    /// First element and number of elements of its scratch memory.
    pub scratch: (usize, usize),
    /// Whether it runs on the second stream.
    pub second_stream: bool,
}

/// An ordered graph with memory assigned by liveness.
pub struct Plan {
    steps: Vec<Step>,
    shapes: Vec<TensorShape>,
    places: Vec<Option<Place>>,
    /// The tensor that each is, or is a part of.
    roots: Vec<usize>,
    outputs: Vec<Var>,
    inputs: Vec<(String, Var)>,
    params: Vec<ParamSpec>,
    constants: Vec<Arc<[f64]>>,
    arena: usize,
    unshared: usize,
    sizes: Vec<usize>,
    unit_bytes: usize,
    leeway: usize,
    /// The time of each step; consecutive steps of the second stream have the same.
    ticks: Vec<usize>,
    views: Views,
}

/// How a backend stores tensors, in units of its choice.
pub(crate) struct MemoryLayout<'a> {
    /// Units of one element in full and in half precision.
    pub units: [usize; 2],
    /// Tensors begin at multiples of this many units.
    pub grain: usize,
    /// Bytes of a unit.
    pub unit_bytes: usize,
    /// Units of scratch memory that a node needs.
    pub scratch: &'a mut dyn FnMut(usize) -> Result<usize>,
    /// Which nodes run on the second stream.
    pub second_stream: &'a dyn Fn(usize) -> bool,
    /// Which outputs a node of the first stream writes on the second.
    pub ends_on_second_stream: &'a dyn Fn(usize, Var) -> bool,
    /// Steps by which the second stream may be late: for as long it keeps the memory it uses. Consecutive steps of the second
    /// stream count as one.
    pub leeway: usize,
    /// Tensors that are stored in others.
    pub views: Views,
}

impl MemoryLayout<'_> {
    /// Units of an element.
    fn unit(&self, graph: &Graph, var: usize) -> usize {
        self.units[usize::from(graph.storage_at(var) == Storage::Half)]
    }

    fn size(&self, graph: &Graph, var: usize) -> usize {
        graph.shape_at(var).numel() * self.unit(graph, var)
    }
}

impl Plan {
    /// Plans the operations that `outputs` need; those tensors keep their values after a run.
    ///
    /// Units are elements, whatever their type: this is the CPU's plan.
    pub fn new(graph: &Graph, outputs: &[Var]) -> Result<Plan> {
        let mut scratch = |index: usize| {
            let node = &graph.nodes()[index];
            let inputs: Vec<&TensorShape> = node.inputs.iter().map(|&v| graph.shape(v)).collect();
            let outputs: Vec<&TensorShape> = node.outputs.iter().map(|&v| graph.shape(v)).collect();
            Ok(node.op.scratch(&inputs, &outputs))
        };
        // 32 elements are 128 bytes of f32.
        let layout = MemoryLayout {
            units: [1, 1],
            grain: 32,
            unit_bytes: 4,
            scratch: &mut scratch,
            second_stream: &|_| false,
            ends_on_second_stream: &|_, _| false,
            leeway: 0,
            views: Views::default(),
        };
        Plan::stored(graph, &graph.nodes().iter().collect::<Vec<_>>(), outputs, layout)
    }

    /// Plans for a backend with its own layout, which may have fused some of the graph's `nodes`.
    pub(crate) fn stored(graph: &Graph, nodes: &[&Node], outputs: &[Var], mut layout: MemoryLayout) -> Result<Plan> {
        if let Some(&var) = outputs.iter().find(|&&var| matches!(graph.leaf(var), Leaf::Folded)) {
            let hint = Some("it was folded into another, unless it is kept".into());
            return Err(Error::Unknown { kind: "output", name: format!("{var:?}"), hint });
        }
        let mut schedule = StepOrder::new(graph, nodes, outputs, &mut layout)?;
        let arena = schedule.assign(graph, &layout);
        let (places, constants) = schedule.places(graph, &arena);
        let StepOrder { steps, ticks, tensors } = schedule;
        let count = graph.tensor_count();
        let plan = Plan {
            steps,
            shapes: (0..count).map(|i| graph.shape_at(i).clone()).collect(),
            places,
            roots: tensors.into_iter().map(|tensor| tensor.root).collect(),
            outputs: outputs.to_vec(),
            inputs: graph.inputs().to_vec(),
            params: graph.params().iter().map(|(spec, _)| spec.clone()).collect(),
            constants,
            arena: arena.size,
            unshared: arena.unshared,
            sizes: (0..count).map(|i| layout.size(graph, i)).collect(),
            unit_bytes: layout.unit_bytes,
            leeway: layout.leeway,
            ticks,
            views: layout.views,
        };
        plan.check_disjoint()?;
        Ok(plan)
    }

    /// A step's time with what it had to do.
    pub(crate) fn timed(&self, step: &Step, time: Duration) -> NodeTime {
        let mut vars: Vec<usize> = step.inputs.iter().chain(&step.outputs).map(|v| v.index()).collect();
        vars.sort_unstable();
        vars.dedup();
        NodeTime {
            operation: step.op.name(),
            scope: step.scope.to_string(),
            shape: self.shape(step.outputs[0]).to_string(),
            flops: step.flops,
            bytes: vars.iter().map(|&v| (self.sizes[v] * self.unit_bytes) as u64).sum(),
            time,
        }
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The last step of the second stream that must be over before step `index`.
    pub(crate) fn due(&self, index: usize) -> Option<usize> {
        self.ticks.partition_point(|tick| tick + self.leeway <= self.ticks[index]).checked_sub(1)
    }

    pub(crate) fn shape(&self, var: Var) -> &TensorShape {
        &self.shapes[var.index()]
    }

    /// Where a tensor of a planned step lives.
    pub(crate) fn place(&self, var: Var) -> Place {
        self.places[var.index()].expect("a planned step reads or writes the tensor")
    }

    /// The tensor that `var` is under another shape, or a part of.
    pub(crate) fn root(&self, var: Var) -> usize {
        self.roots[var.index()]
    }

    /// Elements from one pixel of a tensor to the next.
    pub(crate) fn pitch(&self, var: Var) -> usize {
        self.shape(self.views.whole(var)).channels()
    }

    /// Whether a tensor is written where `whole` is.
    pub(crate) fn lies_in(&self, part: Var, whole: Var) -> bool {
        self.views.get(part).is_some_and(|view| view.whole == whole)
    }

    pub(crate) fn outputs(&self) -> &[Var] {
        &self.outputs
    }

    pub(crate) fn constants(&self) -> &[Arc<[f64]>] {
        &self.constants
    }

    /// The inputs a run reads.
    pub fn inputs(&self) -> &[(String, Var)] {
        &self.inputs
    }

    /// The position of the input `name`, which must have `len` values.
    pub(crate) fn find_input(&self, name: &str, len: usize) -> Result<usize> {
        let index = self.inputs.iter().position(|(n, _)| n == name).ok_or_else(|| Error::Unknown {
            kind: "input",
            name: name.into(),
            hint: suggest(name, self.inputs.iter().map(|(n, _)| n.as_str())),
        })?;
        let expected = self.shape(self.inputs[index].1);
        if len != expected.numel() {
            let (expected, found) = (expected.clone(), TensorShape::from([len]));
            return Err(Error::ShapeMismatch { kind: "input", name: name.into(), expected, found });
        }
        Ok(index)
    }

    /// How many images of `image_size` values the input `name` holds.
    pub(crate) fn images_of(&self, name: &str, image_size: usize) -> Result<usize> {
        let input = self.inputs.iter().find(|(n, _)| n == name);
        let values = input.map_or(0, |(_, var)| self.shape(*var).numel());
        let batch = values / image_size.max(1);
        self.find_input(name, batch * image_size).map(|_| batch)
    }

    /// The parameters a run reads.
    pub fn params(&self) -> &[ParamSpec] {
        &self.params
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Bytes of the arena: the planned peak of activations, gradients and scratch (on the CPU, in `f32`).
    pub fn arena_bytes(&self) -> usize {
        self.arena * self.unit_bytes
    }

    /// Refuses a plan whose memory a CPU's executor could not allocate.
    pub(crate) fn require_host_memory(&self) -> Result<()> {
        let sizes = self.inputs.iter().map(|(_, var)| self.shape(*var).numel());
        let elements: usize = self.arena + sizes.sum::<usize>() + self.constants.iter().map(|c| c.len()).sum::<usize>();
        let largest = self.inputs.iter().map(|(_, var)| self.shape(*var)).max_by_key(|shape| shape.numel());
        let what = largest.map_or("running the network".into(), |shape| format!("running the network on {shape}"));
        let bytes = (elements * size_of::<f32>()) as u64;
        crate::memory::require(bytes, what, "use a smaller batch, or smaller images").map_err(Error::HostMemory)
    }

    /// Units (on the CPU, elements) of the arena.
    pub fn arena_elements(&self) -> usize {
        self.arena
    }

    /// Elements that all computed tensors would take without sharing memory.
    pub fn unshared_elements(&self) -> usize {
        self.unshared
    }

    /// Bytes of every operation's inputs and outputs: what one run moves at least, if nothing is fused or cached.
    pub fn bytes(&self) -> u64 {
        self.steps.iter().map(|step| self.timed(step, Duration::ZERO).bytes).sum()
    }

    /// Floating-point operations of one run.
    pub fn flops(&self) -> u64 {
        self.steps.iter().map(|s| s.flops).sum()
    }
}

impl fmt::Display for Plan {
    /// Counts and times of each kind of operation, then the memory plan.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: Vec<(&str, usize, u64)> = Vec::new();
        for step in &self.steps {
            match kinds.iter_mut().find(|k| k.0 == step.op.name()) {
                Some(kind) => (kind.1, kind.2) = (kind.1 + 1, kind.2 + step.flops),
                None => kinds.push((step.op.name(), 1, step.flops)),
            }
        }
        kinds.sort_by_key(|k| std::cmp::Reverse((k.2, k.1)));
        writeln!(f, "{:<28} {:>6} {:>12}", "operation", "count", "GFLOP")?;
        for (name, count, flops) in kinds {
            writeln!(f, "{name:<28} {count:>6} {:>12.3}", flops as f64 * 1e-9)?;
        }
        let mib = |units: usize| (units * self.unit_bytes) as f64 / (1 << 20) as f64;
        writeln!(f, "{:<28} {:>6} {:>12.3}", "total", self.steps.len(), self.flops() as f64 * 1e-9)?;
        write!(
            f,
            "planned peak {:.1} MiB; without reuse {:.1} MiB ({:.1} times as much)",
            mib(self.arena),
            mib(self.unshared),
            self.unshared as f64 / self.arena.max(1) as f64
        )
    }
}
