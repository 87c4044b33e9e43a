//! From operations to commands: kernel launches, convolutions and matrix products with their addresses.

mod attention;
mod concat;
pub(super) mod conv_f16x2;
pub(super) mod convolution;
mod elementwise;
mod group_norm;
mod group_norm_one_pass;
mod product;
mod resample;
mod rgb_conv;
mod sum;

use super::arguments::*;
use super::cublas::Gemm;
use super::cudnn::{ConvCall, Cudnn};
use super::driver::{Address, Buffer, CudaDevice, CudaEvent, Launch};
use super::kernels::{ElementType, KernelName, Kernels};
use super::select::{Kernel, Selected};
use crate::error::{Error, Result};
use crate::op::Op;
use crate::plan::Step;
use crate::{Graph, Place, Plan, Precision, TensorShape, Var};
pub(super) use attention::{OnChip, scratch as attention_scratch};
pub(super) use group_norm::GroupNormKernel;
use group_norm::MaskArgs;
pub(super) use product::Products;
pub(super) use resample::Fir;
pub(super) use rgb_conv::RgbConv;
use std::collections::HashMap;
use std::sync::Arc;
pub(super) use sum::SumPlan;
#[cfg(test)]
pub(super) use {conv_f16x2::FILTERS, group_norm_one_pass::KNOWN};

/// One piece of work on a stream.
pub(super) enum Command {
    Kernel(Launch),
    Convolution(ConvCall),
    Product(Gemm),
    /// What follows runs on the second stream, after everything so far.
    Fork,
    /// Back to the first stream; the event marks the end of the work on the second.
    Back(CudaEvent),
    /// Makes the first stream wait for the event of that command.
    Join(usize),
}

/// A step's inputs and outputs.
struct Io<'a> {
    shapes: Vec<&'a TensorShape>,
    ins: Vec<Address>,
    /// Elements from one pixel of each input to the next.
    pitches: Vec<usize>,
    outs: Vec<Address>,
    /// The shape of the first output.
    out_shape: &'a TensorShape,
    scratch: Address,
    /// How the first input is stored.
    element: ElementType,
    /// Whether that is bf16.
    half: bool,
    /// Elements of the first output.
    n: usize,
}

/// State of the lowering.
pub(super) struct Lowering<'a> {
    pub device: &'a Arc<CudaDevice>,
    pub kernels: &'a mut Kernels,
    pub cudnn: &'a mut Cudnn,
    pub graph: &'a Graph,
    pub plan: &'a Plan,
    /// What was planned, with the kernel of each.
    pub nodes: &'a [Selected],
    pub precision: Precision,
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
    /// Commands of the step just lowered that may run on the second stream.
    pub later: Vec<Command>,
}

impl<'a> Lowering<'a> {
    fn half(&self, var: Var) -> bool {
        self.precision.half(self.graph.storage(var))
    }

    fn element(&self, var: Var) -> ElementType {
        if self.half(var) { ElementType::Bf16 } else { ElementType::F32 }
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

    /// The address of a convolution's weight, in bf16 if `half`.
    fn weight(&self, step: &Step, half: bool) -> Result<Address> {
        let var = step.inputs[1];
        match self.plan.place(var) {
            Place::Param(index) if half => Ok(self.params[index].1),
            Place::Param(index) => Ok(self.params[index].0),
            _ if self.half(var) == half => Ok(self.address(var)),
            _ => Err(self.unsupported(step, "mixes bf16 and f32; cast one")),
        }
    }

    fn launch<A: Arguments>(
        &mut self,
        kernel: KernelName,
        grid: [usize; 3],
        block: [usize; 3],
        shared: usize,
        arguments: &A,
    ) -> Result<()> {
        let launch = self.kernels.launch(kernel, grid, block, arguments)?;
        launch.function.allow_shared(self.device, shared)?;
        self.commands.push(Command::Kernel(Launch { shared: shared as u32, ..launch }));
        Ok(())
    }

    /// A kernel that strides over `n` items.
    fn each<A: Arguments>(&mut self, kernel: KernelName, n: usize, arguments: &A) -> Result<()> {
        let blocks = n.div_ceil(256).clamp(1, self.device.multiprocessors * 16);
        self.launch(kernel, [blocks, 1, 1], [256, 1, 1], 0, arguments)
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
        let io = self.io(step);
        let kernel = &self.nodes[step.node].kernel;
        match (kernel, &step.op) {
            (Kernel::Cudnn(problem), _) => self.convolution(problem, step, &io),
            (Kernel::ConvF16x2(geometry), Op::Conv2d(op)) => self.conv_f16x2(op, geometry, &io),
            (Kernel::RgbConv(conv), _) => self.rgb_conv(conv, step, &io),
            (Kernel::GroupNorm(norm), Op::GroupNorm(op)) => self.group_norm(norm, &op.options, &io),
            (Kernel::GroupNorm(norm), Op::GroupNormGradient(op)) => self.group_norm_gradient(norm, op, step, &io),
            (Kernel::AttentionOnChip(cut), Op::Attention(op)) => self.attention_on_chip(cut, op.scale, &io),
            (Kernel::AttentionProducts, Op::Attention(op)) => self.attention(op.scale, &io),
            (Kernel::AttentionOnChip(cut), Op::AttentionGradient(op)) => {
                self.attention_gradient_on_chip(cut, op.scale, &io)
            }
            (Kernel::AttentionProducts, Op::AttentionGradient(op)) => self.attention_gradient(op.scale, &io),
            (Kernel::Products(products), Op::Matmul(op)) => self.matmul(products, op, step, &io),
            (Kernel::Sum(sum), Op::Sum(op)) => self.sum(sum, op.scale, &io),
            (Kernel::Fir(fir), Op::Resample(_)) => self.fir(fir, &io),
            (Kernel::Only, _) => self.lower_only(step, &io),
            (kernel, op) => unreachable!("{kernel:?} was selected for {}", op.name()),
        }
    }

    /// Adds the commands of an operation that has one kernel.
    fn lower_only(&mut self, step: &Step, io: &Io) -> Result<()> {
        let Io { shapes, ins, outs, element, n, .. } = io;
        let (element, n, out, pack) = (*element, *n, outs[0], pack_of(*n));
        match &step.op {
            Op::Combine(op) => self.combine(op, step, io),
            Op::Binary(op) => self.binary(op, step, io),
            Op::Unary(op) => {
                let arguments = UnaryArgs { out, x: ins[0], function: op.function as i32, n: long(n) };
                self.each(KernelName::Unary { element }, n, &arguments)
            }
            Op::UnaryGradient(op) => {
                let function = op.function as i32;
                let arguments = UnaryGradientArgs { out, x: ins[0], dy: ins[1], function, n: long(n) };
                self.each(KernelName::UnaryGradient { element }, n, &arguments)
            }
            Op::Cast(_) => self.cast(step, io),
            Op::Expand(_) => self.expand(step, io),
            Op::Concat(_) => self.concat(step, io),
            Op::SliceChannels(op) => self.slice(io, op.first, op.count, shapes[0].channels()),
            Op::Dropout(op) => {
                let MaskArgs { threshold, purpose, kept, seed, step, .. } = self.mask(Some(op.mask), shapes[0]);
                let arguments = DropoutArgs { out, x: ins[0], threshold, kept, seed, purpose, step, n: long(n) };
                self.each(KernelName::Dropout { element, pack }, n.div_ceil(8), &arguments)
            }
            Op::Random(op) => {
                let (seed, purpose, step) = (self.seed, op.purpose, self.step);
                let arguments = RandomArgs { out, kind: op.kind as i32, seed, purpose, step, n: long(n) };
                // A part of a batch may begin within a block.
                self.each(KernelName::Random, n.div_ceil(4) + 1, &arguments)
            }
            Op::Resample(op) => self.resample(op, io),
            Op::MaxPool(op) => {
                let (sizes, window) = pool_sizes(shapes[0], io.out_shape, op);
                let arguments = MaxPoolArgs { out, x: ins[0], n: long(n), sizes, window };
                self.each(KernelName::MaxPool { element }, n, &arguments)
            }
            Op::MaxPoolGradient(op) => {
                let (sizes, window) = pool_sizes(shapes[0], shapes[1], &op.pool);
                let arguments = MaxPoolGradientArgs { dx: out, x: ins[0], dy: ins[1], n: long(n), sizes, window };
                self.each(KernelName::MaxPoolGradient { element }, n, &arguments)
            }
            Op::Interpolate(_) => {
                let [rows, width] = shapes[0].known().map(int);
                let count = long(shapes[1].numel());
                let arguments = InterpolateArgs { out, table: ins[0], position: ins[1], n: count, rows, width };
                self.each(KernelName::Interpolate, n, &arguments)
            }
            Op::InterpolateSlope(_) => {
                let [rows, width] = shapes[0].known().map(int);
                let (table, position, dy) = (ins[0], ins[1], ins[2]);
                let arguments = InterpolateSlopeArgs { out, table, position, dy, n: long(n), rows, width };
                self.each(KernelName::InterpolateSlope, n, &arguments)
            }
            Op::InterpolateTableGradient(_) => {
                let [rows, width] = io.out_shape.known().map(int);
                let count = long(shapes[0].numel());
                let arguments =
                    InterpolateTableGradientArgs { out, position: ins[0], dy: ins[1], n: count, rows, width };
                self.each(KernelName::InterpolateTableGradient, n, &arguments)
            }
            op => unreachable!("a kernel is selected for {}, and the plan has no reshape", op.name()),
        }
    }

    fn io(&self, step: &Step) -> Io<'a> {
        let graph = self.graph;
        let element = step.inputs.first().map_or(ElementType::F32, |&v| self.element(v));
        let out_shape = graph.shape(step.outputs[0]);
        Io {
            shapes: step.inputs.iter().map(|&v| graph.shape(v)).collect(),
            ins: step.inputs.iter().map(|&v| self.address(v)).collect(),
            pitches: step.inputs.iter().map(|&v| self.plan.pitch(v)).collect(),
            outs: step.outputs.iter().map(|&v| self.address(v)).collect(),
            out_shape,
            scratch: self.arena + step.scratch.0 as u64,
            element,
            half: element == ElementType::Bf16,
            n: out_shape.numel(),
        }
    }
}

/// Height, width, those of the output, and channels; and the window.
fn pool_sizes(x: &TensorShape, out: &TensorShape, op: &crate::op::MaxPool) -> ([i32; 5], [i32; 3]) {
    let [_, h, w, c] = x.known();
    let [_, oh, ow, _] = out.known();
    ([h, w, oh, ow, c].map(int), [op.kernel, op.stride, op.pad].map(int))
}

/// How many elements a thread takes at a time.
fn pack_of(n: usize) -> usize {
    if n.is_multiple_of(8) { 8 } else { 1 }
}
