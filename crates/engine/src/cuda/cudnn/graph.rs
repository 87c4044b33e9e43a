//! Convolutions as cuDNN's graphs of operations, and the plans that its heuristics propose for them.

use super::{ConvEpilogue, ConvPass, ConvPlan, CudnnFunctions, Handle, Pitches, Problem, check, failed};
use crate::cuda::driver::CudaDevice;
use crate::error::Result;
use header::*;
use std::ops::Range;
use std::ptr::null_mut;

/// Constants of cudnn_graph.h.
pub(super) mod header {
    pub const POINTWISE: i32 = 0;
    pub const CONVOLUTION: i32 = 1;
    pub const ENGINE: i32 = 2;
    pub const ENGINE_CONFIG: i32 = 3;
    pub const HEURISTIC: i32 = 4;
    pub const PLAN: i32 = 5;
    pub const FORWARD: i32 = 10;
    pub const BACKWARD_FILTER: i32 = 11;
    pub const BACKWARD_DATA: i32 = 12;
    pub const OPERATION_POINTWISE: i32 = 13;
    pub const OPERATION_GRAPH: i32 = 15;
    pub const VARIANT_PACK: i32 = 16;
    pub const TENSOR: i32 = 17;

    pub const TYPE_HANDLE: i32 = 0;
    pub const TYPE_DATA_TYPE: i32 = 1;
    pub const TYPE_BOOLEAN: i32 = 2;
    pub const TYPE_INT64: i32 = 3;
    pub const TYPE_FLOAT: i32 = 4;
    pub const TYPE_POINTER: i32 = 6;
    pub const TYPE_CONVOLUTION_MODE: i32 = 7;
    pub const TYPE_HEURISTIC_MODE: i32 = 8;
    pub const TYPE_NUMERICAL_NOTE: i32 = 11;
    pub const TYPE_POINTWISE_MODE: i32 = 14;
    pub const TYPE_DESCRIPTOR: i32 = 15;
    pub const TYPE_CHAR: i32 = 24;

    pub const FLOAT: i32 = 0;
    pub const BFLOAT16: i32 = 9;
    pub const CROSS_CORRELATION: i32 = 1;
    pub const ADD: i32 = 0;
    pub const MULTIPLY: i32 = 1;
    pub const TENSOR_CORE_NOTE: i32 = 0;
    pub const NONDETERMINISTIC_NOTE: i32 = 4;
}

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
    pub fn new(library: &'static CudnnFunctions, kind: i32) -> Result<Descriptor> {
        let mut raw = null_mut();
        // SAFETY: a valid out-pointer.
        check("making a descriptor", unsafe { (library.descriptor)(kind, &mut raw) })?;
        Ok(Descriptor { library, raw })
    }

    pub fn set<V>(&self, attribute: i32, kind: i32, values: &[V]) -> Result<()> {
        // SAFETY: as many values as the length says, of the type that `kind` names.
        let status =
            unsafe { (self.library.set)(self.raw, attribute, kind, values.len() as i64, values.as_ptr().cast()) };
        check(&format!("setting attribute {attribute}"), status)
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
        let heuristic = Descriptor::new(library, HEURISTIC)?;
        heuristic.set(201, TYPE_DESCRIPTOR, &[graph.raw])?;
        heuristic.set(200, TYPE_HEURISTIC_MODE, &[mode])?;
        let heuristic = heuristic.finish()?;
        let most = wanted.end;
        let configs: Vec<Descriptor> =
            (0..most).map(|_| Descriptor::new(library, ENGINE_CONFIG)).collect::<Result<_>>()?;
        let mut raw: Vec<Handle> = configs.iter().map(|c| c.raw).collect();
        let mut found = 0i64;
        // SAFETY: `most` descriptors of the right kind to be filled in.
        let status = unsafe {
            (library.get)(heuristic.raw, 202, TYPE_DESCRIPTOR, most as i64, &mut found, raw.as_mut_ptr().cast())
        };
        check("asking for engines", status)?;
        let problem = *problem;
        // The graph and its tensors must outlive the making of the plans.
        let keep = (graph, parts, heuristic);
        let found = found.clamp(0, most as i64) as usize;
        Ok(configs.into_iter().take(found).skip(wanted.start).map(move |config| {
            let _ = &keep;
            self.plan(&problem, config)
        }))
    }

    /// The plan of an engine, if it is deterministic, of the asked precision, and needs little memory.
    fn plan(self, problem: &Problem, config: Descriptor) -> Result<ConvPlan> {
        let notes = numerical_notes(self.library, &config)?;
        if !problem.half && !problem.tf32 && notes.contains(&TENSOR_CORE_NOTE) {
            return Err(failed("choosing an engine", "it rounds to TF32"));
        }
        if notes.contains(&NONDETERMINISTIC_NOTE) {
            return Err(failed("choosing an engine", "it is not deterministic"));
        }
        let plan = Descriptor::new(self.library, PLAN)?;
        plan.set(400, TYPE_HANDLE, &[self.handle])?;
        plan.set(401, TYPE_DESCRIPTOR, &[config.raw])?;
        self.finished(problem, plan, vec![config])
    }

    /// A finished plan with the size of its workspace.
    fn finished(self, problem: &Problem, plan: Descriptor, parts: Vec<Descriptor>) -> Result<ConvPlan> {
        let plan = plan.finish()?;
        let (mut workspace, mut count) = (0i64, 0i64);
        // SAFETY: one 64-bit integer.
        let status =
            unsafe { (self.library.get)(plan.raw, 402, TYPE_INT64, 1, &mut count, (&raw mut workspace).cast()) };
        check("asking for the workspace", status)?;
        if workspace as usize > WORKSPACE_LIMIT {
            return Err(failed("choosing an engine", "it needs too much memory"));
        }
        Ok(ConvPlan { plan, workspace: workspace as usize, epilogue: problem.epilogue, parts })
    }

    /// The plan that [`ConvPlan::text`] wrote, without compiling it again.
    pub fn read(self, problem: &Problem, text: &[u8]) -> Result<ConvPlan> {
        let plan = Descriptor::new(self.library, PLAN)?;
        plan.set(405, TYPE_CHAR, text)?;
        plan.set(400, TYPE_HANDLE, &[self.handle])?;
        self.finished(problem, plan, Vec::new())
    }

    /// The convolution, and what follows it, as cuDNN's graph of operations.
    fn operation_graph(self, problem: &Problem) -> Result<(Descriptor, Vec<Descriptor>)> {
        let g = &problem.geometry;
        let kind = if problem.half { BFLOAT16 } else { FLOAT };
        let output = [g.batch, g.filters, g.rows.output, g.cols.output];
        let Pitches { x, y, residual: r } = problem.pitches;
        let x = self.tensor(id::X, kind, [g.batch, g.channels, g.rows.input, g.cols.input], x, TensorPlace::Memory)?;
        let taps = [g.filters, g.channels, g.rows.taps, g.cols.taps];
        let w = self.tensor(id::W, kind, taps, g.channels, TensorPlace::Memory)?;
        // What follows the convolution: each takes the result so far and one more tensor.
        let mut steps = Vec::new();
        if let Some(ConvEpilogue { residual, scale }) = problem.epilogue {
            steps.push((ADD, self.tensor(id::BIAS, FLOAT, [1, g.filters, 1, 1], g.filters, TensorPlace::Memory)?));
            if residual {
                steps.push((ADD, self.tensor(id::RESIDUAL, kind, output, r, TensorPlace::Memory)?));
            }
            // The engines refuse factors other than 1 in additions and convolutions.
            if scale != 1.0 {
                steps.push((MULTIPLY, self.tensor(id::SCALE, FLOAT, [1, 1, 1, 1], 1, TensorPlace::Argument)?));
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
        let graph = Descriptor::new(self.library, OPERATION_GRAPH)?;
        graph.set(800, TYPE_HANDLE, &[self.handle])?;
        graph.set(801, TYPE_DESCRIPTOR, &nodes.iter().map(|node| node.raw).collect::<Vec<_>>())?;
        parts.extend(results);
        parts.extend(nodes);
        Ok((graph.finish()?, parts))
    }

    /// A tensor of images, channels, rows and columns, stored channels last; pixels lie `pitch` elements apart.
    fn tensor(self, id: i64, kind: i32, sizes: [usize; 4], pitch: usize, place: TensorPlace) -> Result<Descriptor> {
        let ([n, c, h, w], pitch) = (sizes.map(|d| d as i64), pitch as i64);
        let tensor = Descriptor::new(self.library, TENSOR)?;
        tensor.set(901, TYPE_DATA_TYPE, &[kind])?;
        tensor.set(902, TYPE_INT64, &[n, c, h, w])?;
        tensor.set(903, TYPE_INT64, &[h * w * pitch, 1, w * pitch, pitch])?;
        tensor.set(906, TYPE_INT64, &[id])?;
        tensor.set(900, TYPE_INT64, &[16i64])?;
        match place {
            TensorPlace::Memory => {}
            TensorPlace::Within => tensor.set(907, TYPE_BOOLEAN, &[true])?,
            TensorPlace::Argument => tensor.set(908, TYPE_BOOLEAN, &[true])?,
        }
        tensor.finish()
    }

    /// How the window moves, and the operation on x, w and y (or their gradients).
    fn convolution(self, problem: &Problem, tensors: [&Descriptor; 3]) -> Result<(Descriptor, Descriptor)> {
        let g = &problem.geometry;
        let convolution = Descriptor::new(self.library, CONVOLUTION)?;
        let (stride, pad) = ([g.rows.stride as i64, g.cols.stride as i64], [g.rows.pad as i64, g.cols.pad as i64]);
        convolution.set(106, TYPE_INT64, &[2i64])?;
        convolution.set(100, TYPE_DATA_TYPE, &[FLOAT])?;
        convolution.set(101, TYPE_CONVOLUTION_MODE, &[CROSS_CORRELATION])?;
        convolution.set(102, TYPE_INT64, &[1i64, 1])?;
        convolution.set(103, TYPE_INT64, &stride)?;
        convolution.set(104, TYPE_INT64, &pad)?;
        convolution.set(105, TYPE_INT64, &pad)?;
        let convolution = convolution.finish()?;
        // Attributes of the operation: convolution, x, w, y, alpha, beta.
        let (operation, attributes) = match problem.kind {
            ConvPass::Forward => (FORWARD, [702, 704, 703, 705, 700, 701]),
            ConvPass::InputGradient => (BACKWARD_DATA, [708, 710, 709, 711, 706, 707]),
            ConvPass::WeightGradient => (BACKWARD_FILTER, [714, 716, 715, 717, 712, 713]),
        };
        let node = Descriptor::new(self.library, operation)?;
        let [x, w, y] = tensors;
        for (attribute, part) in attributes.iter().zip([&convolution, x, w, y]) {
            node.set(*attribute, TYPE_DESCRIPTOR, &[part.raw])?;
        }
        node.set(attributes[4], TYPE_FLOAT, &[problem.scale])?;
        node.set(attributes[5], TYPE_FLOAT, &[0.0f32])?;
        Ok((convolution, node.finish()?))
    }

    /// The third tensor from the first two, element by element, in f32.
    fn pointwise(self, mode: i32, tensors: [&Descriptor; 3]) -> Result<(Descriptor, Descriptor)> {
        let pointwise = Descriptor::new(self.library, POINTWISE)?;
        pointwise.set(0, TYPE_POINTWISE_MODE, &[mode])?;
        pointwise.set(1, TYPE_DATA_TYPE, &[FLOAT])?;
        let pointwise = pointwise.finish()?;
        let node = Descriptor::new(self.library, OPERATION_POINTWISE)?;
        node.set(750, TYPE_DESCRIPTOR, &[pointwise.raw])?;
        for (attribute, tensor) in (751..).zip(tensors) {
            node.set(attribute, TYPE_DESCRIPTOR, &[tensor.raw])?;
        }
        Ok((pointwise, node.finish()?))
    }
}

impl ConvPlan {
    /// The plan with its compiled kernels, to be read by the same cuDNN for the same GPU.
    pub(super) fn text(&self) -> Result<Vec<u8>> {
        let library = self.plan.library;
        let mut length = 0i64;
        // SAFETY: no characters are asked for, only how many there are.
        let status = unsafe { (library.get)(self.plan.raw, 405, TYPE_CHAR, 0, &mut length, null_mut()) };
        check("asking for a plan's length", status)?;
        let mut text = vec![0u8; length.max(0) as usize];
        // SAFETY: room for `length` characters.
        let status =
            unsafe { (library.get)(self.plan.raw, 405, TYPE_CHAR, length, &mut length, text.as_mut_ptr().cast()) };
        check("asking for a plan's text", status)?;
        text.truncate(length.max(0) as usize);
        Ok(text)
    }
}

/// An engine's numerical notes.
fn numerical_notes(library: &'static CudnnFunctions, config: &Descriptor) -> Result<Vec<i32>> {
    let engine = Descriptor::new(library, ENGINE)?;
    let mut raw = [engine.raw];
    let (mut count, mut notes) = (0i64, [-1i32; 16]);
    // SAFETY: one engine descriptor to be filled in, then up to 16 notes.
    unsafe {
        let status = (library.get)(config.raw, 300, TYPE_DESCRIPTOR, 1, &mut count, raw.as_mut_ptr().cast());
        check("asking for an engine", status)?;
        let status = (library.get)(engine.raw, 1303, TYPE_NUMERICAL_NOTE, 16, &mut count, notes.as_mut_ptr().cast());
        check("asking for an engine's notes", status)?;
    }
    Ok(notes[..count.clamp(0, 16) as usize].to_vec())
}
