//! Convolutions as cuDNN's graphs of operations, and the plans that its heuristics propose for them.

use super::{ConvEpilogue, ConvPass, ConvPlan, CudnnFunctions, Handle, Pitches, Problem, check, failed};
use crate::cuda::driver::{Address, CudaDevice};
use crate::error::Result;
use Attribute::*;
use DescriptorType::*;
pub(super) use cudarc::cudnn::sys::{
    cudnnBackendAttributeName_t as Attribute, cudnnBackendDescriptorType_t as DescriptorType,
};
use cudarc::cudnn::sys::{
    cudnnBackendAttributeType_t as AttributeType, cudnnBackendNumericalNote_t as Note, cudnnContext,
    cudnnConvolutionMode_t as ConvolutionMode, cudnnDataType_t as DataType, cudnnPointwiseMode_t as PointwiseMode,
};
use std::ffi::c_int;
use std::ops::Range;
use std::ptr::null_mut;

/// What an attribute can hold, with cuDNN's name of its type.
pub(super) trait AttributeValue {
    const TYPE: AttributeType;
}

macro_rules! attribute_values {
    ($($value:ty: $name:ident;)*) => {
        $(impl AttributeValue for $value {
            const TYPE: AttributeType = AttributeType::$name;
        })*
    };
}

attribute_values! {
    Address: CUDNN_TYPE_VOID_PTR;
    ConvolutionMode: CUDNN_TYPE_CONVOLUTION_MODE;
    DataType: CUDNN_TYPE_DATA_TYPE;
    Handle: CUDNN_TYPE_BACKEND_DESCRIPTOR;
    HeuristicMode: CUDNN_TYPE_HEUR_MODE;
    NumericalNote: CUDNN_TYPE_NUMERICAL_NOTE;
    PointwiseMode: CUDNN_TYPE_POINTWISE_MODE;
    *mut cudnnContext: CUDNN_TYPE_HANDLE;
    bool: CUDNN_TYPE_BOOLEAN;
    f32: CUDNN_TYPE_FLOAT;
    i64: CUDNN_TYPE_INT64;
    u8: CUDNN_TYPE_CHAR;
}

/// `cudnnBackendHeurMode_t`, as the file of choices has it.
#[repr(transparent)]
struct HeuristicMode(c_int);

/// `cudnnBackendNumericalNote_t`; a newer cuDNN may have more of them.
#[derive(Clone, Copy, PartialEq)]
#[repr(transparent)]
struct NumericalNote(c_int);

/// Names of the tensors in a graph and in the addresses given to its plan.
pub(super) mod id {
    pub const X: i64 = 1;
    pub const W: i64 = 2;
    pub const Y: i64 = 3;
    pub const BIAS: i64 = 4;
    pub const RESIDUAL: i64 = 5;
    pub const SCALE: i64 = 6;
    /// The first of those that exist only inside the kernel.
    pub const WITHIN: i64 = 7;
}

/// Plans that need a larger workspace are rejected.
const WORKSPACE_LIMIT: usize = 1 << 30;

const FLOAT: DataType = DataType::CUDNN_DATA_FLOAT;

/// A cuDNN descriptor, destroyed when dropped.
pub(super) struct Descriptor {
    library: &'static CudnnFunctions,
    pub raw: Handle,
}

// SAFETY: a finished descriptor is never changed; executions hold the session's lock.
unsafe impl Send for Descriptor {}
// SAFETY: as above.
unsafe impl Sync for Descriptor {}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once.
        unsafe { (self.library.destroy)(self.raw) };
    }
}

impl Descriptor {
    pub fn new(library: &'static CudnnFunctions, kind: DescriptorType) -> Result<Descriptor> {
        let mut raw = null_mut();
        // SAFETY: a valid out-pointer.
        check("making a descriptor", unsafe { (library.descriptor)(kind as c_int, &mut raw) })?;
        Ok(Descriptor { library, raw })
    }

    pub fn set<V: AttributeValue>(&self, attribute: Attribute, values: &[V]) -> Result<()> {
        let (length, values) = (values.len() as i64, values.as_ptr().cast());
        // SAFETY: as many values as the length says, of the type that V names.
        let status = unsafe { (self.library.set)(self.raw, attribute as c_int, V::TYPE as c_int, length, values) };
        check(&format!("setting {attribute:?}"), status)
    }

    /// Reads at most as many values as there is room for; how many there are.
    fn get<V: AttributeValue>(&self, attribute: Attribute, room: &mut [V]) -> Result<usize> {
        let (mut found, length) = (0, room.len() as i64);
        let pointer = if room.is_empty() { null_mut() } else { room.as_mut_ptr().cast() };
        let (get, kind) = (self.library.get, V::TYPE as c_int);
        // SAFETY: room for as many values as the length says, of the type that V names.
        let status = unsafe { get(self.raw, attribute as c_int, kind, length, &mut found, pointer) };
        check(&format!("asking for {attribute:?}"), status)?;
        Ok(found.max(0) as usize)
    }

    pub fn finish(self) -> Result<Descriptor> {
        // SAFETY: a live descriptor.
        check("finishing a descriptor", unsafe { (self.library.finalize)(self.raw) })?;
        Ok(self)
    }
}

/// Where a tensor lives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TensorPlace {
    Memory,
    /// In the kernel's registers, between two operations.
    Within,
    /// In the host's memory, read when the kernel is launched.
    Argument,
}

/// Makes plans by a cuDNN handle; every thread has its own.
#[derive(Clone, Copy)]
pub(super) struct Planner {
    pub library: &'static CudnnFunctions,
    pub handle: Handle,
}

// SAFETY: the handle belongs to the thread it was sent to.
unsafe impl Send for Planner {}

impl Planner {
    /// With a new handle, which lives as long as the process.
    pub fn new(device: &CudaDevice) -> Result<Planner> {
        let library = CudnnFunctions::get()?;
        device.enter()?;
        let mut handle = null_mut();
        // SAFETY: a valid out-pointer.
        check("starting cuDNN", unsafe { (library.create)(&mut handle) })?;
        Ok(Planner { library, handle })
    }

    /// Some of the engines a heuristic proposes, as plans, best first; those that cannot be planned are errors.
    pub fn proposals(
        self,
        problem: &Problem,
        mode: i32,
        wanted: Range<usize>,
    ) -> Result<impl Iterator<Item = Result<ConvPlan>>> {
        let library = self.library;
        let (graph, parts) = self.operation_graph(problem)?;
        let heuristic = Descriptor::new(library, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?;
        heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[graph.raw])?;
        heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, &[HeuristicMode(mode)])?;
        let heuristic = heuristic.finish()?;
        let most = wanted.end;
        let configs: Vec<Descriptor> =
            (0..most).map(|_| Descriptor::new(library, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)).collect::<Result<_>>()?;
        let mut raw: Vec<Handle> = configs.iter().map(|c| c.raw).collect();
        // The descriptors, of the right kind, are filled in.
        let found = heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, &mut raw)?;
        let problem = *problem;
        // The graph and its tensors must outlive the making of the plans.
        let keep = (graph, parts, heuristic);
        Ok(configs.into_iter().take(found).skip(wanted.start).map(move |config| {
            let _ = &keep;
            self.plan(&problem, config)
        }))
    }

    /// The plan of an engine, if it is deterministic, of the asked precision, and needs little memory.
    fn plan(self, problem: &Problem, config: Descriptor) -> Result<ConvPlan> {
        let notes = numerical_notes(self.library, &config)?;
        if !problem.half
            && !problem.tf32
            && notes.contains(&NumericalNote(Note::CUDNN_NUMERICAL_NOTE_TENSOR_CORE as c_int))
        {
            return Err(failed("choosing an engine", "it rounds to TF32"));
        }
        if notes.contains(&NumericalNote(Note::CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC as c_int)) {
            return Err(failed("choosing an engine", "it is not deterministic"));
        }
        let plan = Descriptor::new(self.library, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, &[self.handle.cast::<cudnnContext>()])?;
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[config.raw])?;
        self.finished(problem, plan, vec![config])
    }

    /// A finished plan with the size of its workspace.
    fn finished(self, problem: &Problem, plan: Descriptor, parts: Vec<Descriptor>) -> Result<ConvPlan> {
        let plan = plan.finish()?;
        let mut workspace = [0i64];
        plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, &mut workspace)?;
        let workspace = workspace[0] as usize;
        if workspace > WORKSPACE_LIMIT {
            return Err(failed("choosing an engine", "it needs too much memory"));
        }
        Ok(ConvPlan { plan, workspace, epilogue: problem.epilogue, parts })
    }

    /// The plan that [`ConvPlan::text`] wrote, without compiling it again.
    pub fn read(self, problem: &Problem, text: &[u8]) -> Result<ConvPlan> {
        let plan = Descriptor::new(self.library, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, text)?;
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, &[self.handle.cast::<cudnnContext>()])?;
        self.finished(problem, plan, Vec::new())
    }

    /// The convolution, and what follows it, as cuDNN's graph of operations.
    fn operation_graph(self, problem: &Problem) -> Result<(Descriptor, Vec<Descriptor>)> {
        let g = &problem.geometry;
        let kind = if problem.half { DataType::CUDNN_DATA_BFLOAT16 } else { FLOAT };
        let output = [g.batch, g.filters, g.rows.output, g.cols.output];
        let Pitches { x, y, residual: r } = problem.pitches;
        let x = self.tensor(id::X, kind, [g.batch, g.channels, g.rows.input, g.cols.input], x, TensorPlace::Memory)?;
        let taps = [g.filters, g.channels, g.rows.taps, g.cols.taps];
        let w = self.tensor(id::W, kind, taps, g.channels, TensorPlace::Memory)?;
        // What follows the convolution: each takes the result so far and one more tensor.
        let mut steps = Vec::new();
        if let Some(ConvEpilogue { residual, scale }) = problem.epilogue {
            steps.push((
                PointwiseMode::CUDNN_POINTWISE_ADD,
                self.tensor(id::BIAS, FLOAT, [1, g.filters, 1, 1], g.filters, TensorPlace::Memory)?,
            ));
            if residual {
                steps.push((
                    PointwiseMode::CUDNN_POINTWISE_ADD,
                    self.tensor(id::RESIDUAL, kind, output, r, TensorPlace::Memory)?,
                ));
            }
            // The engines refuse factors other than 1 in additions and convolutions.
            if scale != 1.0 {
                steps.push((
                    PointwiseMode::CUDNN_POINTWISE_MUL,
                    self.tensor(id::SCALE, FLOAT, [1, 1, 1, 1], 1, TensorPlace::Argument)?,
                ));
            }
        }
        let within = |i: usize| self.tensor(id::WITHIN + i as i64, FLOAT, output, g.filters, TensorPlace::Within);
        let mut results = (0..steps.len()).map(within).collect::<Result<Vec<_>>>()?;
        results.push(self.tensor(id::Y, kind, output, y, TensorPlace::Memory)?);
        let mut parts = vec![x, w];
        let (convolution, node) = self.convolution(problem, [&parts[0], &parts[1], &results[0]])?;
        let mut nodes = vec![node];
        parts.push(convolution);
        for (i, (mode, operand)) in steps.into_iter().enumerate() {
            let (pointwise, node) = self.pointwise(mode, [&results[i], &operand, &results[i + 1]])?;
            nodes.push(node);
            parts.extend([operand, pointwise]);
        }
        let graph = Descriptor::new(self.library, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?;
        graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, &[self.handle.cast::<cudnnContext>()])?;
        graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, &nodes.iter().map(|node| node.raw).collect::<Vec<_>>())?;
        parts.extend(results);
        parts.extend(nodes);
        Ok((graph.finish()?, parts))
    }

    /// A tensor of images, channels, rows and columns, stored channels last; pixels lie `pitch` elements apart.
    fn tensor(
        self,
        id: i64,
        kind: DataType,
        sizes: [usize; 4],
        pitch: usize,
        place: TensorPlace,
    ) -> Result<Descriptor> {
        let ([n, c, h, w], pitch) = (sizes.map(|d| d as i64), pitch as i64);
        let tensor = Descriptor::new(self.library, CUDNN_BACKEND_TENSOR_DESCRIPTOR)?;
        tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, &[kind])?;
        tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, &[n, c, h, w])?;
        tensor.set(CUDNN_ATTR_TENSOR_STRIDES, &[h * w * pitch, 1, w * pitch, pitch])?;
        tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, &[id])?;
        tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[16i64])?;
        match place {
            TensorPlace::Memory => {}
            TensorPlace::Within => tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, &[true])?,
            TensorPlace::Argument => tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, &[true])?,
        }
        tensor.finish()
    }

    /// How the window moves, and the operation on x, w and y (or their gradients).
    fn convolution(self, problem: &Problem, tensors: [&Descriptor; 3]) -> Result<(Descriptor, Descriptor)> {
        let g = &problem.geometry;
        let convolution = Descriptor::new(self.library, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?;
        let (stride, pad) = ([g.rows.stride as i64, g.cols.stride as i64], [g.rows.pad as i64, g.cols.pad as i64]);
        convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[2i64])?;
        convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, &[FLOAT])?;
        convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, &[ConvolutionMode::CUDNN_CROSS_CORRELATION])?;
        convolution.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, &[1i64, 1])?;
        convolution.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &stride)?;
        convolution.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &pad)?;
        convolution.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &pad)?;
        let convolution = convolution.finish()?;
        // Attributes of the operation: convolution, x, w, y, alpha, beta.
        let (operation, attributes) = match problem.kind {
            ConvPass::Forward => (
                CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                [
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                ],
            ),
            ConvPass::InputGradient => (
                CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                [
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                ],
            ),
            ConvPass::WeightGradient => (
                CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                [
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                ],
            ),
        };
        let node = Descriptor::new(self.library, operation)?;
        let [x, w, y] = tensors;
        for (attribute, part) in attributes.iter().zip([&convolution, x, w, y]) {
            node.set(*attribute, &[part.raw])?;
        }
        node.set(attributes[4], &[problem.scale])?;
        node.set(attributes[5], &[0.0f32])?;
        Ok((convolution, node.finish()?))
    }

    /// The third tensor from the first two, element by element, in f32.
    fn pointwise(self, mode: PointwiseMode, tensors: [&Descriptor; 3]) -> Result<(Descriptor, Descriptor)> {
        let pointwise = Descriptor::new(self.library, CUDNN_BACKEND_POINTWISE_DESCRIPTOR)?;
        pointwise.set(CUDNN_ATTR_POINTWISE_MODE, &[mode])?;
        pointwise.set(CUDNN_ATTR_POINTWISE_MATH_PREC, &[FLOAT])?;
        let pointwise = pointwise.finish()?;
        let node = Descriptor::new(self.library, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)?;
        node.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &[pointwise.raw])?;
        let places = [
            CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
            CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
            CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
        ];
        for (attribute, tensor) in places.into_iter().zip(tensors) {
            node.set(attribute, &[tensor.raw])?;
        }
        Ok((pointwise, node.finish()?))
    }
}

impl ConvPlan {
    /// The plan with its compiled kernels, to be read by the same cuDNN for the same GPU.
    pub(super) fn text(&self) -> Result<Vec<u8>> {
        const TEXT: Attribute = CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
        let mut text = vec![0u8; self.plan.get::<u8>(TEXT, &mut [])?];
        let length = self.plan.get(TEXT, &mut text)?;
        text.truncate(length);
        Ok(text)
    }
}

/// An engine's numerical notes.
fn numerical_notes(library: &'static CudnnFunctions, config: &Descriptor) -> Result<Vec<NumericalNote>> {
    let engine = Descriptor::new(library, CUDNN_BACKEND_ENGINE_DESCRIPTOR)?;
    let mut notes = [NumericalNote(-1); 16];
    // The engine descriptor is filled in.
    config.get(CUDNN_ATTR_ENGINECFG_ENGINE, &mut [engine.raw])?;
    let count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, &mut notes)?;
    Ok(notes[..count.min(notes.len())].to_vec())
}
