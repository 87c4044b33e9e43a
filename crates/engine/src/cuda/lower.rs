//! From operations to commands: kernel launches, convolutions and matrix products with their addresses.

mod attention;
mod convolution;
mod elementwise;
mod narrow;
mod norm;
mod product;
mod resample;
mod resident;
mod rows;
mod split;
mod sum;

use super::cublas::Gemm;
use super::cudnn::{ConvCall, Cudnn, Problem};
use super::driver::{Address, Buffer, Chip, Device, Event, Launch};
use super::kernels::Kernels;
use crate::error::{Error, Result};
use crate::op::group_norm::cut;
use crate::op::{Op, RandomKind};
use crate::plan::Step;
use crate::views::Views;
use crate::{Graph, Node, Place, Plan, Precision, Shape, Var};
pub(super) use attention::OnChip;
use convolution::convolution;
pub(super) use convolution::{of_colours, problem};
use narrow::Narrow;
use norm::chunks;
pub(super) use resident::Resident;
use std::collections::HashMap;
use std::sync::Arc;
use sum::SumPlan;

/// One piece of work on the stream.
pub(super) enum Command {
    Kernel(Launch),
    Convolution(ConvCall),
    Product(Gemm),
    /// What follows runs on the second stream, after everything so far.
    Fork,
    /// Back to the first stream; the event marks the end of what ran beside.
    Back(Event),
    /// Waits for the event that this command marks.
    Join(usize),
}

/// How numbers are stored and multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// f32 throughout, without rounding to TF32.
    F32,
    /// As accurate as f32, and stored so; convolutions on tensor cores, where a number is the sum of two of 11 bits.
    /// Images beyond 65504 and weights beyond 1023 give NaN.
    Split,
    /// f32 in memory, TF32 in convolutions and matrix products.
    Tf32,
    /// Activations in bf16, sums and parameters in f32.
    Bf16,
}

impl Numbers {
    pub(super) fn half(self, precision: Precision) -> bool {
        self == Numbers::Bf16 && precision == Precision::Half
    }

    /// Whether f32 may be rounded to TF32.
    fn tf32(self) -> bool {
        matches!(self, Numbers::Tf32 | Numbers::Bf16)
    }
}

/// A step's inputs and outputs: shapes, addresses, and how the first input is stored.
struct Io<'a> {
    shapes: Vec<&'a Shape>,
    ins: Vec<Address>,
    /// Elements from one pixel of each input to the next.
    pitches: Vec<usize>,
    outs: Vec<Address>,
    scratch: Address,
    kind: &'static str,
    half: bool,
    /// Elements of the first output.
    n: usize,
}

/// Everything the lowering needs to know.
pub(super) struct Lowering<'a> {
    pub device: &'a Arc<Device>,
    pub kernels: &'a mut Kernels,
    pub cudnn: &'a mut Cudnn,
    pub graph: &'a Graph,
    pub plan: &'a Plan,
    pub numbers: Numbers,
    pub arena: Address,
    pub inputs: Vec<Address>,
    pub constants: Vec<Address>,
    /// Address of each parameter in f32, and of its bf16 copy.
    pub params: Vec<(Address, Address)>,
    pub step: Address,
    pub seed: u64,
    pub tables: Vec<Buffer>,
    /// Dropout's decisions that a forward pass leaves for the backward pass, by purpose, threshold and elements.
    pub masks: HashMap<(u32, u32, usize), Address>,
    pub commands: Vec<Command>,
    /// What belongs to the step just lowered but may run beside the next ones.
    pub later: Vec<Command>,
}

/// Bytes of scratch memory for a node; `workspace` tells what cuDNN wants for a convolution.
pub(super) fn scratch(
    node: &Node,
    graph: &Graph,
    numbers: Numbers,
    chip: Chip,
    views: &Views,
    workspace: &mut dyn FnMut(&Problem) -> Result<usize>,
) -> Result<usize> {
    let shapes: Vec<&Shape> = node.inputs.iter().map(|&v| graph.shape(v)).collect();
    let half = node.inputs.first().is_some_and(|&v| numbers.half(graph.precision(v)));
    if let Some(geometry) = split::geometry(&node.op, &shapes, numbers) {
        return Ok(split::scratch(&geometry));
    }
    if let Some(narrow) = Narrow::of(&node.op, &shapes, half, chip) {
        return Ok(narrow.scratch());
    }
    if let Some(problem) = problem(node, graph, numbers, chip, views) {
        return workspace(&problem);
    }
    let capability = chip.capability;
    Ok(match &node.op {
        Op::Sum(op) => {
            let [outer, middle, inner] = op.cut(shapes[0]);
            outer * SumPlan::new(outer, middle, inner).parts * inner * 4
        }
        Op::GroupNorm(op) if half && Resident::of(shapes[0], op.options.groups, false, capability).is_some() => 0,
        Op::GroupNorm(_) if half => chunks(shapes[0]).map_or(0, |n| 2 * n) * shapes[0][0] * cut(shapes[0]).1 * 4,
        Op::GroupNormGradient(op)
            if numbers.half(graph.precision(node.inputs[3]))
                && Resident::of(shapes[3], op.options.groups, true, capability).is_some() =>
        {
            0
        }
        Op::GroupNormGradient(_) => {
            let half = numbers.half(graph.precision(node.inputs[3]));
            let chunks = if half { chunks(shapes[3]).unwrap_or(0) } else { 0 };
            (2 + 3 * chunks) * shapes[3][0] * cut(shapes[3]).1 * 4
        }
        Op::Attention(_) => attention::scratch(shapes[0], false, half, chip),
        Op::AttentionGradient(_) => attention::scratch(shapes[0], true, half, chip),
        _ => 0,
    })
}

impl Lowering<'_> {
    fn half(&self, var: Var) -> bool {
        self.numbers.half(self.graph.precision(var))
    }

    fn kind(&self, var: Var) -> &'static str {
        if self.half(var) { "bf16" } else { "float" }
    }

    pub fn address(&self, var: Var) -> Address {
        match self.plan.place(var) {
            Place::Arena(offset) => self.arena + offset as u64,
            Place::Input(index) => self.inputs[index],
            Place::Constant(index) => self.constants[index],
            Place::Param(index) if self.half(var) => self.params[index].1,
            Place::Param(index) => self.params[index].0,
        }
    }

    /// The address of a convolution's weight, in bf16 if it wants that.
    fn weight(&self, step: &Step, half: bool) -> Result<Address> {
        let var = step.inputs[1];
        match self.plan.place(var) {
            Place::Param(index) if half => Ok(self.params[index].1),
            Place::Param(index) => Ok(self.params[index].0),
            _ if self.half(var) == half => Ok(self.address(var)),
            _ => Err(self.unsupported(step, "mixes bf16 and f32; cast one")),
        }
    }

    fn launch(
        &mut self,
        name: &str,
        grid: [usize; 3],
        block: [usize; 3],
        shared: usize,
        arguments: &[u64],
    ) -> Result<()> {
        let function = self.kernels.get(name)?;
        function.allow_shared(self.device, shared)?;
        let [grid, block] = [grid, block].map(|sizes| sizes.map(|s| s as u32));
        let arguments = arguments.to_vec();
        self.commands.push(Command::Kernel(Launch {
            function,
            grid,
            block,
            shared: shared as u32,
            cluster: 1,
            arguments,
        }));
        Ok(())
    }

    /// A kernel that strides over `n` items.
    fn each(&mut self, name: &str, n: usize, arguments: &[u64]) -> Result<()> {
        let blocks = n.div_ceil(256).clamp(1, self.device.multiprocessors * 16);
        self.launch(name, [blocks, 1, 1], [256, 1, 1], 0, arguments)
    }

    fn unsupported(&self, step: &Step, problem: &str) -> Error {
        Error::Operation {
            operation: step.op.name(),
            place: format!(" at `{}` on CUDA", step.scope),
            problem: problem.into(),
            inputs: String::new(),
        }
    }

    /// Adds the commands of one step.
    pub fn lower(&mut self, step: &Step) -> Result<()> {
        let graph = self.graph;
        let shapes: Vec<&Shape> = step.inputs.iter().map(|&v| graph.shape(v)).collect();
        let ins: Vec<Address> = step.inputs.iter().map(|&v| self.address(v)).collect();
        let pitches = step.inputs.iter().map(|&v| self.plan.pitch(v)).collect();
        let outs: Vec<Address> = step.outputs.iter().map(|&v| self.address(v)).collect();
        let out_shape = graph.shape(step.outputs[0]);
        let n = out_shape.numel();
        let scratch = self.arena + step.scratch.0 as u64;
        let kind = step.inputs.first().map_or("float", |&v| self.kind(v));
        let half = kind == "bf16";
        let io = Io { shapes, ins, pitches, outs, scratch, kind, half, n };
        let Io { shapes, ins, outs, .. } = &io;
        if let (Op::Conv2d(op), Some(geometry)) = (&step.op, split::geometry(&step.op, shapes, self.numbers)) {
            return self.split_conv(op, &geometry, &io);
        }
        if let Some(narrow) = Narrow::of(&step.op, shapes, half, self.device.chip) {
            return self.narrow(&narrow, step, &io);
        }
        let pitch = |var: Var| self.plan.pitch(var);
        if let Some(problem) = convolution(&step.op, &step.inputs, &step.outputs, graph, self.numbers, pitch) {
            return self.convolution(&problem, step, &io);
        }
        match &step.op {
            Op::Combine(op) => {
                self.combine(op, step, &io)?;
            }
            Op::Binary(op) => {
                self.binary(op, step, out_shape, &io)?;
            }
            Op::Unary(op) => {
                self.each(&format!("unary_{kind}"), n, &[outs[0], ins[0], op.function as u64, n as u64])?;
            }
            Op::UnaryGradient(op) => {
                let arguments = [outs[0], ins[0], ins[1], op.function as u64, n as u64];
                self.each(&format!("unary_gradient_{kind}"), n, &arguments)?;
            }
            Op::Cast(_) => {
                self.cast(step, &io)?;
            }
            Op::Expand(_) => {
                self.expand(step, out_shape, &io)?;
            }
            Op::Concat(_) => {
                self.concat(step, &io)?;
            }
            Op::SliceChannels(op) => {
                let width = shapes[0].last().copied().unwrap_or(1);
                self.slice(&io, op.first, op.count, width)?;
            }
            Op::Sum(op) => {
                let [outer, middle, inner] = op.cut(shapes[0]);
                self.sum(kind, ins[0], [outer, middle, inner], scratch, outs[0], op.scale)?;
            }
            Op::Dropout(op) => {
                let v = if n.is_multiple_of(8) { 8 } else { 1 };
                let [threshold, purpose, kept, seed, step] = self.mask(Some(op.mask));
                let arguments = [outs[0], ins[0], threshold, kept, seed, purpose, step, n as u64];
                self.each(&format!("dropout_{kind}_{v}"), n.div_ceil(8), &arguments)?;
            }
            Op::Random(op) => {
                let normal = u64::from(op.kind == RandomKind::Normal);
                let arguments = [outs[0], normal, self.seed, op.purpose.into(), self.step, n as u64];
                self.each("random_float", n.div_ceil(4), &arguments)?;
            }
            Op::GroupNorm(op) => {
                self.group_norm(&op.options, &io)?;
            }
            Op::GroupNormGradient(op) => {
                self.group_norm_gradient(op, step, &io)?;
            }
            Op::Resample(op) => {
                self.resample(op, out_shape, &io)?;
            }
            Op::MaxPool(op) => {
                let arguments = pool_arguments(vec![outs[0], ins[0], n as u64], shapes[0], out_shape, op);
                self.each(&format!("max_pool_{kind}"), n, &arguments)?;
            }
            Op::MaxPoolGradient(op) => {
                let arguments = pool_arguments(vec![outs[0], ins[0], ins[1], n as u64], shapes[0], shapes[1], &op.pool);
                self.each(&format!("max_pool_gradient_{kind}"), n, &arguments)?;
            }
            Op::Interpolate(_) => {
                let [rows, d] = shapes[0].dims().unwrap_or_default();
                let arguments = [outs[0], ins[0], ins[1], shapes[1].numel() as u64, rows as u64, d as u64];
                self.each("interpolate", n, &arguments)?;
            }
            Op::InterpolateSlope(_) => {
                let [rows, d] = shapes[0].dims().unwrap_or_default();
                self.each("interpolate_slope", n, &[outs[0], ins[0], ins[1], ins[2], n as u64, rows as u64, d as u64])?;
            }
            Op::InterpolateTableGradient(_) => {
                let [rows, d] = out_shape.dims().unwrap_or_default();
                let arguments = [outs[0], ins[0], ins[1], shapes[0].numel() as u64, rows as u64, d as u64];
                self.each("interpolate_table_gradient", n, &arguments)?;
            }
            Op::Matmul(op) => {
                self.matmul(op, step, &io)?;
            }
            Op::Attention(op) => {
                self.attention(op.scale, &io)?;
            }
            Op::AttentionGradient(op) => {
                self.attention_gradient(op.scale, &io)?;
            }
            Op::Reshape(_) | Op::Conv2d(_) | Op::Conv2dInputGradient(_) | Op::Conv2dWeightGradient(_) => {}
        }
        Ok(())
    }
}

fn pool_arguments(mut head: Vec<u64>, x: &Shape, out: &Shape, op: &crate::op::MaxPool) -> Vec<u64> {
    let [_, h, w, c] = x.dims().unwrap_or_default();
    let [_, oh, ow, _] = out.dims().unwrap_or_default();
    head.extend([h, w, oh, ow, c, op.kernel, op.stride, op.pad].map(|d| d as u64));
    head
}

/// An f32 argument.
pub(super) fn float(value: f64) -> u64 {
    u64::from((value as f32).to_bits())
}
