//! Convolutions by cuDNN's graph interface: the engine is chosen by measurement once and remembered on disk.
#![allow(unsafe_code)]

use super::driver::{Address, Device};
use super::library::{self, library};
use super::nvrtc::{cache_file, store};
use crate::cpu::conv::Geometry;
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

type Handle = *mut c_void;

library!(
    /// Functions of `libcudnn`.
    Library, "cuDNN (libcudnn)", "SOFTDIFF_CUDNN", &["libcudnn.so.9", "libcudnn.so"],
    "install cuDNN 9 (package cudnn9-cuda-13, or `pip install nvidia-cudnn-cu13` and set SOFTDIFF_CUDNN to its file)",
    {
        create: "cudnnCreate" (*mut Handle);
        set_stream: "cudnnSetStream" (Handle, Handle);
        version: "cudnnGetVersion" ();
        descriptor: "cudnnBackendCreateDescriptor" (c_int, *mut Handle);
        destroy: "cudnnBackendDestroyDescriptor" (Handle);
        finalize: "cudnnBackendFinalize" (Handle);
        set: "cudnnBackendSetAttribute" (Handle, c_int, c_int, i64, *const c_void);
        get: "cudnnBackendGetAttribute" (Handle, c_int, c_int, i64, *mut i64, *mut c_void);
        execute: "cudnnBackendExecute" (Handle, Handle, Handle);
    }
);

/// Numbers of cudnn_graph.h.
mod header {
    pub const CONVOLUTION: i32 = 1;
    pub const ENGINE: i32 = 2;
    pub const ENGINE_CONFIG: i32 = 3;
    pub const HEURISTIC: i32 = 4;
    pub const PLAN: i32 = 5;
    pub const FORWARD: i32 = 10;
    pub const BACKWARD_FILTER: i32 = 11;
    pub const BACKWARD_DATA: i32 = 12;
    pub const OPERATION_GRAPH: i32 = 15;
    pub const VARIANT_PACK: i32 = 16;
    pub const TENSOR: i32 = 17;

    pub const TYPE_HANDLE: i32 = 0;
    pub const TYPE_DATA_TYPE: i32 = 1;
    pub const TYPE_INT64: i32 = 3;
    pub const TYPE_FLOAT: i32 = 4;
    pub const TYPE_POINTER: i32 = 6;
    pub const TYPE_CONVOLUTION_MODE: i32 = 7;
    pub const TYPE_HEURISTIC_MODE: i32 = 8;
    pub const TYPE_NUMERICAL_NOTE: i32 = 11;
    pub const TYPE_DESCRIPTOR: i32 = 15;

    pub const FLOAT: i32 = 0;
    pub const BFLOAT16: i32 = 9;
    pub const CROSS_CORRELATION: i32 = 1;
    pub const TENSOR_CORE_NOTE: i32 = 0;
}
use header::*;

/// What a convolution plan computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// y from x and w.
    Forward,
    /// dx from dy and w.
    InputGradient,
    /// dw from x and dy.
    WeightGradient,
}

/// A convolution to plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Problem {
    pub kind: Kind,
    pub geometry: Geometry,
    /// Images and weights in bf16 (else f32).
    pub half: bool,
    /// Whether f32 may be rounded to TF32.
    pub tf32: bool,
    /// What the result is multiplied by.
    pub scale: f32,
}

impl Problem {
    fn key(&self) -> String {
        let g = &self.geometry;
        let axis = |a: &crate::cpu::conv::Axis| format!("{}k{}s{}p{}", a.input, a.taps, a.stride, a.pad);
        let kind = match self.kind {
            Kind::Forward => "fprop",
            Kind::InputGradient => "dgrad",
            Kind::WeightGradient => "wgrad",
        };
        let number = if self.half {
            "bf16"
        } else if self.tf32 {
            "tf32"
        } else {
            "f32"
        };
        let (rows, cols) = (axis(&g.rows), axis(&g.cols));
        format!("{kind}-{number}-n{}-{rows}x{cols}-{}to{}-a{}", g.batch, g.channels, g.filters, self.scale)
    }

    /// Elements of x, w and y.
    fn sizes(&self) -> [usize; 3] {
        let g = &self.geometry;
        [
            g.batch * g.rows.input * g.cols.input * g.channels,
            g.filters * g.rows.taps * g.cols.taps * g.channels,
            g.batch * g.rows.output * g.cols.output * g.filters,
        ]
    }
}

/// A cuDNN descriptor, destroyed when dropped.
struct Descriptor {
    library: &'static Library,
    raw: Handle,
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
    fn new(library: &'static Library, kind: i32) -> Result<Descriptor> {
        let mut raw = null_mut();
        // SAFETY: a valid out-pointer.
        check("making a descriptor", unsafe { (library.descriptor)(kind, &mut raw) })?;
        Ok(Descriptor { library, raw })
    }

    fn set<V>(&self, attribute: i32, kind: i32, values: &[V]) -> Result<()> {
        // SAFETY: as many values as the length says, of the type that `kind` names.
        let status =
            unsafe { (self.library.set)(self.raw, attribute, kind, values.len() as i64, values.as_ptr().cast()) };
        check(&format!("setting attribute {attribute}"), status)
    }

    fn finish(self) -> Result<Descriptor> {
        // SAFETY: a live descriptor.
        check("finishing a descriptor", unsafe { (self.library.finalize)(self.raw) })?;
        Ok(self)
    }
}

/// A planned convolution: its engine, and the memory it needs beside its tensors.
pub(super) struct ConvPlan {
    plan: Descriptor,
    pub workspace: usize,
    // The plan refers to these.
    _parts: Vec<Descriptor>,
}

/// A plan with its addresses.
pub(super) struct ConvCall {
    plan: Arc<ConvPlan>,
    pack: Descriptor,
}

/// A cuDNN handle on a device's stream, and the engines chosen so far.
pub(super) struct Cudnn {
    library: &'static Library,
    handle: Handle,
    device: Arc<Device>,
    /// Problem to (mode, index in that mode's list).
    choices: HashMap<String, (i32, usize)>,
    plans: HashMap<String, Arc<ConvPlan>>,
    changed: bool,
}

// SAFETY: the handle is used by one executor at a time, after entering the context.
unsafe impl Send for Cudnn {}

/// Heuristics and how many of their proposals are timed: mode A (decision tree), mode B (learned), fallback. For odd shapes
/// the best may stand far down in any of them.
const MODES: [(i32, usize); 3] = [(3, 16), (1, 8), (2, 4)];
/// Plans that want more are passed over.
const WORKSPACE_LIMIT: usize = 1 << 30;

impl Cudnn {
    pub fn new(device: &Arc<Device>) -> Result<Cudnn> {
        // cuDNN ends the whole process when it cannot find this one.
        library::Library::open(
            "cuBLASLt (libcublasLt)",
            "SOFTDIFF_CUBLASLT",
            &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", "/usr/local/cuda/lib64/libcublasLt.so"],
            "install the CUDA toolkit 12 or 13",
        )?;
        let library = Library::get()?;
        device.enter()?;
        let mut handle = null_mut();
        // SAFETY: a valid out-pointer, then a live handle and stream.
        unsafe {
            check("starting cuDNN", (library.create)(&mut handle))?;
            check("setting cuDNN's stream", (library.set_stream)(handle, device.stream))?;
        }
        let mut cudnn = Cudnn {
            library,
            handle,
            device: device.clone(),
            choices: HashMap::new(),
            plans: HashMap::new(),
            changed: false,
        };
        if let Some(text) = cache_file(&cudnn.cache_name()).and_then(|path| std::fs::read_to_string(path).ok()) {
            for line in text.lines() {
                if let [key, mode, index] = line.split(' ').collect::<Vec<_>>()[..]
                    && let (Ok(mode), Ok(index)) = (mode.parse(), index.parse())
                {
                    cudnn.choices.insert(key.into(), (mode, index));
                }
            }
        }
        Ok(cudnn)
    }

    /// The library's version, such as 91400.
    pub fn version(&self) -> i32 {
        // SAFETY: no arguments; the true return type is a size_t that fits 32 bits.
        unsafe { (self.library.version)() }
    }

    fn cache_name(&self) -> String {
        format!("cudnn-{}-{}.txt", self.version(), self.device.name.replace([' ', '/'], "_"))
    }

    /// Writes the choices made since they were read.
    pub fn remember(&mut self) {
        if self.changed {
            let mut lines: Vec<String> =
                self.choices.iter().map(|(key, (mode, index))| format!("{key} {mode} {index}\n")).collect();
            lines.sort();
            store(&self.cache_name(), lines.concat().as_bytes());
            self.changed = false;
        }
    }

    /// A plan for `problem`: the remembered engine, or the fastest of those the heuristics propose.
    pub fn plan(&mut self, problem: &Problem) -> Result<Arc<ConvPlan>> {
        let key = problem.key();
        if let Some(plan) = self.plans.get(&key) {
            return Ok(plan.clone());
        }
        let known = self.choices.get(&key).copied();
        let remembered =
            known.and_then(|(mode, index)| self.proposals(problem, mode, index + 1).ok()?.nth(index)?.ok());
        let plan = match remembered {
            Some(plan) => Arc::new(plan),
            None => {
                let (plan, choice) = self.fastest(problem)?;
                self.choices.insert(key.clone(), choice);
                self.changed = true;
                Arc::new(plan)
            }
        };
        self.plans.insert(key, plan.clone());
        Ok(plan)
    }

    /// Times the proposals on memory of the right size.
    fn fastest(&self, problem: &Problem) -> Result<(ConvPlan, (i32, usize))> {
        let element = if problem.half { 2 } else { 4 };
        let buffers = problem.sizes().map(|n| self.device.alloc(n * element));
        let [x, w, y] = buffers;
        let (x, w, y) = (x?, w?, y?);
        for buffer in [&x, &w, &y] {
            // Small finite numbers in either format; zeros would run faster than real data.
            buffer.fill_word(0x3E1F_3E9A)?;
        }
        let mut best: Option<(f32, ConvPlan, (i32, usize))> = None;
        for (mode, most) in MODES {
            let Ok(proposals) = self.proposals(problem, mode, most) else { continue };
            for (index, plan) in proposals.enumerate() {
                let Ok(plan) = plan else { continue };
                let Ok(workspace) = self.device.alloc(plan.workspace) else { continue };
                let plan = Arc::new(plan);
                let Ok(call) = self.bind(&plan, [x.address, w.address, y.address], workspace.address) else {
                    continue;
                };
                let run = |times: usize| self.device.time(|| (0..times).try_for_each(|_| self.enqueue(&call)));
                // The first run also loads the engine; a hopeless one is not run again.
                let Ok(_) = run(1) else { continue };
                let Ok(once) = run(1) else { continue };
                let limit = best.as_ref().map_or(f32::INFINITY, |b| b.0);
                if once > 2.0 * limit {
                    continue;
                }
                let Ok(many) = run(4) else { continue };
                drop(call);
                if many / 4.0 < limit
                    && let Ok(plan) = Arc::try_unwrap(plan)
                {
                    best = Some((many / 4.0, plan, (mode, index)));
                }
            }
        }
        let none = || Error::Device {
            what: format!("planning convolution {}", problem.key()),
            problem: "cuDNN has no engine for it".into(),
            hint: "this shape may need a newer cuDNN; --precision f32 supports more".into(),
        };
        best.map(|(_, plan, choice)| (plan, choice)).ok_or_else(none)
    }

    /// The engines a heuristic proposes, as plans, best first; those that cannot be planned are errors.
    fn proposals(&self, problem: &Problem, mode: i32, most: usize) -> Result<impl Iterator<Item = Result<ConvPlan>>> {
        let library = self.library;
        let (graph, _parts) = self.operation_graph(problem)?;
        let heuristic = Descriptor::new(library, HEURISTIC)?;
        heuristic.set(201, TYPE_DESCRIPTOR, &[graph.raw])?;
        heuristic.set(200, TYPE_HEURISTIC_MODE, &[mode])?;
        let heuristic = heuristic.finish()?;
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
        let handle = self.handle;
        let build = move |config: Descriptor| -> Result<ConvPlan> {
            if !problem.half && !problem.tf32 && uses_tensor_cores(library, &config)? {
                return Err(failed("choosing an engine", "it rounds to TF32"));
            }
            let plan = Descriptor::new(library, PLAN)?;
            plan.set(400, TYPE_HANDLE, &[handle])?;
            plan.set(401, TYPE_DESCRIPTOR, &[config.raw])?;
            let plan = plan.finish()?;
            let (mut workspace, mut count) = (0i64, 0i64);
            // SAFETY: one 64-bit integer.
            let status =
                unsafe { (library.get)(plan.raw, 402, TYPE_INT64, 1, &mut count, (&raw mut workspace).cast()) };
            check("asking for the workspace", status)?;
            if workspace as usize > WORKSPACE_LIMIT {
                return Err(failed("choosing an engine", "it wants too much memory"));
            }
            Ok(ConvPlan { plan, workspace: workspace as usize, _parts: vec![config] })
        };
        // The graph and its tensors must outlive the plans' making.
        let keep = (graph, _parts, heuristic);
        Ok(configs.into_iter().take(found.clamp(0, most as i64) as usize).map(move |config| {
            let _ = &keep;
            build(config)
        }))
    }

    /// The operation (and its bias) as cuDNN's graph of operations.
    fn operation_graph(&self, problem: &Problem) -> Result<(Descriptor, Vec<Descriptor>)> {
        let library = self.library;
        let g = &problem.geometry;
        let kind = if problem.half { BFLOAT16 } else { FLOAT };
        let tensor = |id: i64, dims: [usize; 4]| -> Result<Descriptor> {
            let [n, c, h, w] = dims.map(|d| d as i64);
            let tensor = Descriptor::new(library, TENSOR)?;
            tensor.set(901, TYPE_DATA_TYPE, &[kind])?;
            tensor.set(902, TYPE_INT64, &[n, c, h, w])?;
            tensor.set(903, TYPE_INT64, &[h * w * c, 1, w * c, c])?;
            tensor.set(906, TYPE_INT64, &[id])?;
            tensor.set(900, TYPE_INT64, &[16i64])?;
            tensor.finish()
        };
        let output_dims = [g.batch, g.filters, g.rows.output, g.cols.output];
        let x = tensor(1, [g.batch, g.channels, g.rows.input, g.cols.input])?;
        let w = tensor(2, [g.filters, g.channels, g.rows.taps, g.cols.taps])?;
        let y = tensor(3, output_dims)?;
        let convolution = Descriptor::new(library, CONVOLUTION)?;
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
            Kind::Forward => (FORWARD, [702, 704, 703, 705, 700, 701]),
            Kind::InputGradient => (BACKWARD_DATA, [708, 710, 709, 711, 706, 707]),
            Kind::WeightGradient => (BACKWARD_FILTER, [714, 716, 715, 717, 712, 713]),
        };
        let node = Descriptor::new(library, operation)?;
        for (attribute, part) in attributes.iter().zip([&convolution, &x, &w, &y]) {
            node.set(*attribute, TYPE_DESCRIPTOR, &[part.raw])?;
        }
        node.set(attributes[4], TYPE_FLOAT, &[problem.scale])?;
        node.set(attributes[5], TYPE_FLOAT, &[0.0f32])?;
        let node = node.finish()?;
        let graph = Descriptor::new(library, OPERATION_GRAPH)?;
        graph.set(800, TYPE_HANDLE, &[self.handle])?;
        graph.set(801, TYPE_DESCRIPTOR, &[node.raw])?;
        Ok((graph.finish()?, vec![x, w, y, convolution, node]))
    }

    /// Gives a plan its addresses: x, w and y (or their gradients), and workspace.
    pub fn bind(&self, plan: &Arc<ConvPlan>, addresses: [Address; 3], workspace: Address) -> Result<ConvCall> {
        let pack = Descriptor::new(self.library, VARIANT_PACK)?;
        pack.set(1000, TYPE_INT64, &[1i64, 2, 3])?;
        pack.set(1001, TYPE_POINTER, &addresses)?;
        pack.set(1003, TYPE_POINTER, &[workspace])?;
        Ok(ConvCall { plan: plan.clone(), pack: pack.finish()? })
    }

    /// What follows goes to this stream.
    pub fn follow(&self, stream: Handle) -> Result<()> {
        // SAFETY: a live handle and stream.
        check("setting cuDNN's stream", unsafe { (self.library.set_stream)(self.handle, stream) })
    }

    pub fn enqueue(&self, call: &ConvCall) -> Result<()> {
        // SAFETY: a finished plan and pack, with addresses inside live buffers.
        check("a convolution", unsafe { (self.library.execute)(self.handle, call.plan.plan.raw, call.pack.raw) })
    }
}

fn uses_tensor_cores(library: &'static Library, config: &Descriptor) -> Result<bool> {
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
    Ok(notes[..count.clamp(0, 16) as usize].contains(&TENSOR_CORE_NOTE))
}

fn failed(what: &str, problem: &str) -> Error {
    let hint = "run `softdiff doctor`; after a device error, start the program again".into();
    Error::Device { what: what.into(), problem: problem.into(), hint }
}

fn check(what: &str, status: i32) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(failed(what, &format!("cuDNN status {status}"))) }
}
