//! The graph builder: operations over static shapes, recorded in the order they will run.

use crate::TensorShape;
use crate::error::{Error, MAX_TENSOR_BYTES, Result};
use crate::op::Op;
use std::collections::HashMap;
use std::sync::Arc;

/// A tensor of a graph: an input, a parameter, a constant, or an operation's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Var(u32);

impl Var {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// How a backend may store a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In the executor's element type.
    Full,
    /// In 16 bits, where the backend computes with such activations; else like `Full`.
    Half,
}

/// One recorded operation.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it computes.
    pub op: Op,
    /// What it reads.
    pub inputs: Vec<Var>,
    /// What it writes.
    pub outputs: Vec<Var>,
    /// Where in the network it was recorded, for messages and profiles.
    pub scope: Arc<str>,
}

/// Where a tensor comes from.
#[derive(Clone, Debug)]
pub enum Leaf {
    /// Set by the caller before each run; the index counts inputs.
    Input(usize),
    /// A named parameter; the index counts parameters.
    Param(usize),
    /// Fixed values.
    Constant(Arc<[f64]>),
    /// Written by an operation; the index counts operations.
    Computed(usize),
    /// Part of another since [`Graph::fold`]; nothing can read it.
    Folded,
}

/// How a parameter is initialised; see [`crate::Params::initialise`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// Every element this value.
    Constant(f64),
    /// Uniform in +-bound.
    Uniform {
        /// Largest absolute value.
        bound: f64,
    },
    /// Normal with mean 0.
    Normal {
        /// Standard deviation.
        deviation: f64,
    },
}

/// A parameter's declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamSpec {
    /// Its full name, which is also its name in checkpoints.
    pub name: String,
    /// Its shape.
    pub shape: TensorShape,
    /// How it begins.
    pub init: Init,
    /// Whether an optimiser may change it.
    pub trainable: bool,
}

struct Tensor {
    shape: TensorShape,
    storage: Storage,
    leaf: Leaf,
}

/// A builder of operations. Methods that add an operation are next to that operation, in [`crate::op`].
#[derive(Default)]
pub struct Graph {
    tensors: Vec<Tensor>,
    nodes: Vec<Node>,
    inputs: Vec<(String, Var)>,
    params: Vec<(ParamSpec, Var)>,
    param_index: HashMap<String, usize>,
    scope: String,
    pub(crate) recompute: bool,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether gradients asked for from now on compute cheap results again instead of having them kept: the same values
    /// in less memory.
    pub fn recompute(&mut self, again: bool) {
        self.recompute = again;
    }

    fn tensor(&mut self, shape: TensorShape, storage: Storage, leaf: Leaf) -> Var {
        let var = Var(self.tensors.len() as u32);
        self.tensors.push(Tensor { shape, storage, leaf });
        var
    }

    /// Refuses a tensor that no backend can index.
    fn check_size(&self, operation: &'static str, place: &str, shape: &TensorShape) -> Result<()> {
        match shape.checked_len().map(|elements| (elements as u64).saturating_mul(4)) {
            Some(bytes) if bytes > MAX_TENSOR_BYTES => {
                Err(Error::TooLarge { operation, place: place.into(), shape: shape.clone(), bytes })
            }
            _ => Ok(()),
        }
    }

    fn checked(&self, what: &'static str, name: &str, shape: &TensorShape) -> Result<()> {
        self.check_size(what, &format!(" `{name}`"), shape)?;
        match shape.checked_len() {
            Some(1..) => Ok(()),
            _ => Err(Error::Operation {
                operation: what,
                place: format!(" `{name}`"),
                problem: format!("shape {shape} is empty or too large"),
                inputs: String::new(),
            }),
        }
    }

    /// Declares an input that the caller sets before each run.
    pub fn input(&mut self, name: &str, shape: impl Into<TensorShape>) -> Result<Var> {
        let shape = shape.into();
        self.checked("input", name, &shape)?;
        if let Some((_, first)) = self.inputs.iter().find(|(n, _)| n == name) {
            let first = self.shape(*first).clone();
            return Err(Error::Duplicate { kind: "input", name: name.into(), first, second: shape });
        }
        let var = self.tensor(shape, Storage::Full, Leaf::Input(self.inputs.len()));
        self.inputs.push((name.into(), var));
        Ok(var)
    }

    /// Declares a trainable parameter named `scope.name`.
    pub fn param(&mut self, name: &str, shape: impl Into<TensorShape>, init: Init) -> Result<Var> {
        self.declare(name, shape.into(), init, true)
    }

    /// Declares a parameter that is saved and loaded but never trained.
    pub fn frozen_param(&mut self, name: &str, shape: impl Into<TensorShape>, init: Init) -> Result<Var> {
        self.declare(name, shape.into(), init, false)
    }

    fn declare(&mut self, name: &str, shape: TensorShape, init: Init, trainable: bool) -> Result<Var> {
        let name = if self.scope.is_empty() { name.to_string() } else { format!("{}.{name}", self.scope) };
        self.checked("parameter", &name, &shape)?;
        if let Some(&index) = self.param_index.get(&name) {
            let first = self.params[index].0.shape.clone();
            return Err(Error::Duplicate { kind: "parameter", name, first, second: shape });
        }
        let var = self.tensor(shape.clone(), Storage::Full, Leaf::Param(self.params.len()));
        self.param_index.insert(name.clone(), self.params.len());
        self.params.push((ParamSpec { name, shape, init, trainable }, var));
        Ok(var)
    }

    /// A tensor of fixed values.
    pub fn constant(&mut self, shape: impl Into<TensorShape>, values: Vec<f64>) -> Result<Var> {
        let shape = shape.into();
        self.checked("constant", "", &shape)?;
        if values.len() != shape.numel() {
            let found = TensorShape::from([values.len()]);
            return Err(Error::ShapeMismatch { kind: "constant", name: String::new(), expected: shape, found });
        }
        Ok(self.tensor(shape, Storage::Full, Leaf::Constant(values.into())))
    }

    /// Runs `build` with `name` appended to the names of parameters and to the places in error messages.
    pub fn scoped<R>(&mut self, name: &str, build: impl FnOnce(&mut Graph) -> Result<R>) -> Result<R> {
        let outer = self.enter_scope(name);
        let result = build(self);
        self.leave_scope(outer);
        result
    }

    /// Appends `name` to the scope and gives what [`Graph::leave_scope`] needs to go back.
    pub fn enter_scope(&mut self, name: &str) -> usize {
        let outer = self.scope.len();
        if outer > 0 {
            self.scope.push('.');
        }
        self.scope.push_str(name);
        outer
    }

    /// Goes back to the scope before the matching [`Graph::enter_scope`].
    pub fn leave_scope(&mut self, outer: usize) {
        self.scope.truncate(outer);
    }

    /// Sets the scope and gives the old one.
    pub(crate) fn replace_scope(&mut self, scope: String) -> String {
        std::mem::replace(&mut self.scope, scope)
    }

    /// Records an operation and gives its outputs.
    pub fn apply(&mut self, op: impl Into<Op>, inputs: &[Var]) -> Result<Vec<Var>> {
        let op = op.into();
        let shapes: Vec<&TensorShape> = inputs.iter().map(|&v| self.shape(v)).collect();
        let place = if self.scope.is_empty() { String::new() } else { format!(" at `{}`", self.scope) };
        let folded = inputs.iter().any(|&v| matches!(self.leaf(v), Leaf::Folded));
        let readable = if folded { Err("reads a tensor that was folded into another".to_string()) } else { Ok(()) };
        let outputs = readable.and_then(|()| op.shapes(&shapes)).and_then(|outputs| {
            match outputs.iter().find(|s| !matches!(s.checked_len(), Some(1..))) {
                Some(shape) => Err(format!("its output {shape} is empty or too large")),
                None => Ok(outputs),
            }
        });
        let outputs = outputs.map_err(|problem| Error::Operation {
            operation: op.name(),
            place: place.clone(),
            problem,
            inputs: shapes.iter().map(|s| s.to_string()).collect::<Vec<_>>().join(", "),
        })?;
        outputs.iter().try_for_each(|shape| self.check_size(op.name(), &place, shape))?;
        let storages: Vec<Storage> = inputs.iter().map(|&v| self.storage(v)).collect();
        let storages = op.storages(&storages, outputs.len());
        let outputs: Vec<Var> =
            outputs.into_iter().zip(storages).map(|(s, p)| self.tensor(s, p, Leaf::Folded)).collect();
        self.add_node(op, inputs, &outputs);
        Ok(outputs)
    }

    /// Records an operation whose outputs are tensors of this graph.
    pub(crate) fn add_node(&mut self, op: Op, inputs: &[Var], outputs: &[Var]) {
        let scope = match self.nodes.last() {
            Some(last) if *last.scope == *self.scope => last.scope.clone(),
            _ => self.scope.as_str().into(),
        };
        for var in outputs {
            self.tensors[var.index()].leaf = Leaf::Computed(self.nodes.len());
        }
        self.nodes.push(Node { op, inputs: inputs.to_vec(), outputs: outputs.to_vec(), scope });
    }

    /// Removes all operations; until they are added again, their outputs cannot be read.
    pub(crate) fn take_nodes(&mut self) -> Vec<Node> {
        let nodes = std::mem::take(&mut self.nodes);
        for var in nodes.iter().flat_map(|node| &node.outputs) {
            self.tensors[var.index()].leaf = Leaf::Folded;
        }
        nodes
    }

    /// Records an operation with one output.
    pub(crate) fn apply1(&mut self, op: impl Into<Op>, inputs: &[Var]) -> Result<Var> {
        Ok(self.apply(op, inputs)?[0])
    }

    /// The shape of a tensor.
    pub fn shape(&self, var: Var) -> &TensorShape {
        &self.tensors[var.index()].shape
    }

    /// How a tensor may be stored.
    pub fn storage(&self, var: Var) -> Storage {
        self.tensors[var.index()].storage
    }

    /// Where a tensor comes from.
    pub fn leaf(&self, var: Var) -> &Leaf {
        &self.tensors[var.index()].leaf
    }

    /// Every recorded operation, in order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Single values of all parameters, counted from their shapes: nothing is allocated.
    pub fn param_elements(&self) -> u64 {
        self.params().iter().map(|(spec, _)| spec.shape.numel() as u64).sum()
    }

    /// Every declared parameter with its tensor, in order.
    pub fn params(&self) -> &[(ParamSpec, Var)] {
        &self.params
    }

    /// The tensors of the parameters an optimiser may change, in order.
    pub fn trainable(&self) -> Vec<Var> {
        self.params.iter().filter(|(spec, _)| spec.trainable).map(|(_, var)| *var).collect()
    }

    /// Every declared input.
    pub fn inputs(&self) -> &[(String, Var)] {
        &self.inputs
    }

    pub(crate) fn shape_at(&self, index: usize) -> &TensorShape {
        &self.tensors[index].shape
    }

    pub(crate) fn storage_at(&self, index: usize) -> Storage {
        self.tensors[index].storage
    }

    pub(crate) fn leaf_at(&self, index: usize) -> &Leaf {
        &self.tensors[index].leaf
    }

    pub(crate) fn tensor_count(&self) -> usize {
        self.tensors.len()
    }

    /// A readable name for a tensor, for messages.
    pub fn describe(&self, var: Var) -> String {
        match self.leaf(var) {
            Leaf::Input(i) => format!("input `{}`", self.inputs[*i].0),
            Leaf::Param(i) => format!("parameter `{}`", self.params[*i].0.name),
            Leaf::Constant(_) => format!("constant {}", self.shape(var)),
            Leaf::Computed(i) => {
                let node = &self.nodes[*i];
                format!("output of {} at `{}`", node.op.name(), node.scope)
            }
            Leaf::Folded => "a tensor that was folded into another".into(),
        }
    }
}
