//! Convolutions by cuDNN's graph interface: engines are chosen by measurement once and cached on disk.
#![allow(unsafe_code)]

mod fused;
mod graph;

use super::driver::{Address, CudaDevice, Handle};
use super::library::{self, library};
use crate::cache;
use crate::cpu::conv::Geometry;
use crate::error::{Error, Result};
use cudarc::cudnn::sys;
use fused::Fusion;
pub(super) use fused::suits;
use graph::{Attribute, Descriptor, DescriptorType, Planner, id};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

library!(
    /// Functions of `libcudnn`.
    CudnnFunctions, sys, "cuDNN (libcudnn)", "SOFTDIFF_CUDNN", &["libcudnn.so.9", "libcudnn.so"],
    "pip install nvidia-cudnn-cu13 nvidia-cuda-nvrtc nvidia-cublas, in an active virtual environment (CUDA 12: docs/install.md)",
    {
        create: cudnnCreate (*mut Handle);
        set_stream: cudnnSetStream (Handle, Handle);
        version: cudnnGetVersion () -> usize;
        descriptor: cudnnBackendCreateDescriptor (c_int, *mut Handle);
        destroy: cudnnBackendDestroyDescriptor (Handle);
        finalize: cudnnBackendFinalize (Handle);
        set: cudnnBackendSetAttribute (Handle, c_int, c_int, i64, *const c_void);
        get: cudnnBackendGetAttribute (Handle, c_int, c_int, i64, *mut i64, *mut c_void);
        execute: cudnnBackendExecute (Handle, Handle, Handle);
    }
);

/// What a convolution plan computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConvPass {
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
    pub kind: ConvPass,
    pub geometry: Geometry,
    pub pitches: Pitches,
    /// Images and weights in bf16 (else f32).
    pub half: bool,
    /// Whether f32 may be rounded to TF32.
    pub tf32: bool,
    /// What the result is multiplied by.
    pub scale: f32,
    /// What follows in the same kernel, if that is faster.
    pub epilogue: Option<ConvEpilogue>,
}

/// Elements from one pixel to the next, of x, y and the residual: their channels, or those of the tensor they lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pitches {
    pub x: usize,
    pub y: usize,
    pub residual: usize,
}

impl Pitches {
    /// Of tensors that lie in no other.
    pub fn dense(g: &Geometry) -> Pitches {
        Pitches { x: g.channels, y: g.filters, residual: g.filters }
    }
}

/// `(y + bias + residual) scale` after a convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConvEpilogue {
    pub residual: bool,
    pub scale: f32,
}

impl Problem {
    /// Its name in the cache of choices.
    fn key(&self) -> String {
        let (g, dense) = (&self.geometry, Pitches::dense(&self.geometry));
        let axis = |a: &crate::cpu::conv::Axis| format!("{}k{}s{}p{}", a.input, a.taps, a.stride, a.pad);
        let kind = match self.kind {
            ConvPass::Forward => "fprop",
            ConvPass::InputGradient => "dgrad",
            ConvPass::WeightGradient => "wgrad",
        };
        let number = if self.half {
            "bf16"
        } else if self.tf32 {
            "tf32"
        } else {
            "f32"
        };
        let (rows, cols) = (axis(&g.rows), axis(&g.cols));
        let epilogue = self.epilogue.map_or(String::new(), |ConvEpilogue { residual, scale }| {
            format!("-b{}s{scale}", if residual { "r" } else { "" })
        });
        let Pitches { x, y, residual } = self.pitches;
        let added = self.epilogue.is_some_and(|e| e.residual);
        let apart =
            [("x", x, x != dense.x), ("y", y, y != dense.y), ("r", residual, added && residual != dense.residual)];
        let apart: String = apart.iter().filter(|a| a.2).map(|(name, pitch, _)| format!("-{name}{pitch}")).collect();
        let scale = self.scale;
        format!("{kind}-{number}-n{}-{rows}x{cols}-{}to{}-a{scale}{epilogue}{apart}", g.batch, g.channels, g.filters)
    }

    /// Elements of memory that x, w, y and the residual lie in.
    fn sizes(&self) -> [usize; 4] {
        let (g, pitches) = (&self.geometry, &self.pitches);
        let output = g.batch * g.rows.output * g.cols.output;
        [
            g.batch * g.rows.input * g.cols.input * pitches.x,
            g.filters * g.rows.taps * g.cols.taps * g.channels,
            output * pitches.y,
            output * pitches.residual,
        ]
    }
}

/// A planned convolution: its engine and workspace.
pub(super) struct ConvPlan {
    plan: Descriptor,
    pub workspace: usize,
    /// What it does after the convolution.
    pub epilogue: Option<ConvEpilogue>,
    /// What the plan refers to; nothing if it was read from disk.
    parts: Vec<Descriptor>,
}

/// A plan with its addresses.
pub(super) struct ConvCall {
    plan: Arc<ConvPlan>,
    pack: Descriptor,
}

/// An engine: a list of heuristics and an index in it.
type Choice = (i32, usize);

/// A cuDNN handle on a device's stream, and the engines chosen so far.
pub(super) struct Cudnn {
    planner: Planner,
    device: Arc<CudaDevice>,
    /// By problem.
    choices: HashMap<String, Choice>,
    plans: HashMap<String, Arc<ConvPlan>>,
    fusion: Fusion,
    /// Problems whose choices are not on disk yet, with the choice that each replaces.
    changed: HashMap<String, Option<Choice>>,
}

// SAFETY: the handle is used by one executor at a time, after entering the context.
unsafe impl Send for Cudnn {}

/// cuDNN's heuristics: a decision tree, and a learned one.
const HEURISTIC_A: i32 = sys::cudnnBackendHeurMode_t::CUDNN_HEUR_MODE_A as i32;
const HEURISTIC_B: i32 = sys::cudnnBackendHeurMode_t::CUDNN_HEUR_MODE_B as i32;
/// Heuristics and how many of their proposals are timed.
const MODES: [(i32, usize); 2] = [(HEURISTIC_A, 12), (HEURISTIC_B, 4)];
/// The same for channels that are not multiples of 8, where the best may be far down in any list.
const ODD_MODES: [(i32, usize); 2] = [(HEURISTIC_A, 16), (HEURISTIC_B, 8)];
/// Timed too if nothing else was found, and for such channels.
const FALLBACK: (i32, usize) = (sys::cudnnBackendHeurMode_t::CUDNN_HEUR_MODE_FALLBACK as i32, 2);
/// Milliseconds of repeated runs that can be timed reliably, and that the host may take to enqueue one.
const LONG: f32 = 0.3;
const HOST: f32 = 0.05;

/// Opens cuBLASLt: cuDNN aborts the process when it cannot find it.
pub(super) fn cublaslt() -> Result<library::SharedLibrary> {
    library::SharedLibrary::open(
        "cuBLASLt (libcublasLt)",
        "SOFTDIFF_CUBLASLT",
        &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", "/usr/local/cuda/lib64/libcublasLt.so"],
        "pip install nvidia-cudnn-cu13 nvidia-cuda-nvrtc nvidia-cublas, in an active virtual environment (CUDA 12: docs/install.md)",
    )
}

impl Cudnn {
    pub fn new(device: &Arc<CudaDevice>) -> Result<Cudnn> {
        cublaslt()?;
        let mut cudnn = Cudnn {
            planner: Planner::new(device)?,
            device: device.clone(),
            choices: HashMap::new(),
            plans: HashMap::new(),
            fusion: Fusion::default(),
            changed: HashMap::new(),
        };
        cudnn.follow(device.stream)?;
        if let Some(text) = cache::file(&cudnn.cache_name()).and_then(|path| std::fs::read_to_string(path).ok()) {
            cudnn.adopt(&text);
        }
        Ok(cudnn)
    }

    /// Takes choices as they lie in the cache: a problem, a mode and an index in each line.
    pub fn adopt(&mut self, lines: &str) {
        self.choices.extend(choices_in(lines).map(|(key, choice)| (key.to_owned(), choice)));
    }

    /// The choices of the problems that were planned; also those that are not kept, because no compiler was found.
    pub fn engines(&self) -> String {
        let mut lines: Vec<String> = self.plans.keys().map(|key| choice_line(key, self.choices.get(key))).collect();
        lines.sort();
        lines.concat()
    }

    /// The library's version, such as 91400.
    pub fn version(&self) -> i32 {
        // SAFETY: no arguments.
        (unsafe { (self.planner.library.version)() }) as i32
    }

    fn cache_name(&self) -> String {
        format!("cudnn-{}-{}.txt", self.version(), self.device.name.replace([' ', '/'], "_"))
    }

    /// Writes new choices to disk, beside those of other processes.
    pub fn save_choices(&mut self) {
        let changed = std::mem::take(&mut self.changed);
        if !changed.is_empty() {
            cache::update(&self.cache_name(), |text| merged(text, &changed, &self.choices));
        }
    }

    /// A plan for `problem`: the cached engine, or the fastest of those the heuristics propose.
    pub fn plan(&mut self, problem: &Problem) -> Result<Arc<ConvPlan>> {
        let key = problem.key();
        if let Some(plan) = self.plans.get(&key) {
            return Ok(plan.clone());
        }
        let known = self.choices.get(&key).copied();
        let cached = || {
            let (mode, index) = known?;
            self.planner.proposals(problem, mode, index..index + 1).ok()?.next()?.ok()
        };
        let plan = if problem.epilogue.is_some() {
            self.fused_or_apart(problem)?
        } else if let Some(plan) = cached() {
            Arc::new(plan)
        } else {
            let (plan, choice) = self.fastest(problem)?;
            self.choose(&key, choice);
            Arc::new(plan)
        };
        self.plans.insert(key, plan.clone());
        Ok(plan)
    }

    fn choose(&mut self, key: &str, choice: Choice) {
        let replaced = self.choices.insert(key.into(), choice);
        self.changed.entry(key.into()).or_insert(replaced);
    }

    /// Times the proposals on memory of the right size.
    fn fastest(&self, problem: &Problem) -> Result<(ConvPlan, Choice)> {
        let element = if problem.half { 2 } else { 4 };
        let [x, w, y, _] = problem.sizes().map(|n| n * element);
        let (x, w, y) = (self.device.alloc(x)?, self.device.alloc(w)?, self.device.alloc(y)?);
        for buffer in [&x, &w, &y] {
            // Small finite numbers in either format; zeros would run faster than real data.
            buffer.fill_word(0x3E1F_3E9A)?;
        }
        let mut best: Option<(f32, ConvPlan, Choice)> = None;
        let odd = !problem.geometry.channels.is_multiple_of(8) || !problem.geometry.filters.is_multiple_of(8);
        let modes = if odd { &ODD_MODES[..] } else { &MODES[..] };
        for &(mode, most) in modes.iter().chain([&FALLBACK]) {
            if (mode, most) == FALLBACK && best.is_some() && !odd {
                break;
            }
            let Ok(proposals) = self.planner.proposals(problem, mode, 0..most) else { continue };
            for (index, plan) in proposals.enumerate() {
                let Ok(plan) = plan else { continue };
                let Ok(workspace) = self.device.alloc(plan.workspace) else { continue };
                let plan = Arc::new(plan);
                let Ok(call) = self.bind(&plan, [x.address, w.address, y.address], [0; 2], workspace.address) else {
                    continue;
                };
                let limit = best.as_ref().map_or(f32::INFINITY, |b| b.0);
                let Ok(taken) = self.in_a_row(&call, limit) else { continue };
                drop(call);
                if taken < limit
                    && let Ok(plan) = Arc::try_unwrap(plan)
                {
                    best = Some((taken, plan, (mode, index)));
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

    /// Milliseconds of a convolution in a captured graph, without the host's overhead; one that is far above
    /// the `limit` in a single run is not run again.
    fn in_a_row(&self, call: &ConvCall, limit: f32) -> Result<f32> {
        // The first run loads the engine, which a capture does not allow.
        self.enqueue(call)?;
        let once = self.device.time(|| self.enqueue(call))?;
        if once > 2.0 * limit + HOST {
            return Ok(once);
        }
        let runs = ((LONG / once.max(1e-6)) as usize).clamp(2, 8);
        let graph = self.device.capture(|| (0..runs).try_for_each(|_| self.enqueue(call)))?;
        let mut least = f32::INFINITY;
        for _ in 0..3 {
            least = least.min(self.device.time(|| graph.launch())?);
        }
        Ok(least / runs as f32)
    }

    /// Gives a plan its addresses: x, w and y (or their gradients), bias and residual (where it has them), and workspace.
    pub fn bind(
        &self,
        plan: &Arc<ConvPlan>,
        tensors: [Address; 3],
        [bias, residual]: [Address; 2],
        workspace: Address,
    ) -> Result<ConvCall> {
        let mut bound = vec![(id::X, tensors[0]), (id::W, tensors[1]), (id::Y, tensors[2])];
        if let Some(epilogue) = &plan.epilogue {
            bound.push((id::BIAS, bias));
            if epilogue.residual {
                bound.push((id::RESIDUAL, residual));
            }
            if epilogue.scale != 1.0 {
                // Host memory inside the shared plan, which the call keeps alive.
                bound.push((id::SCALE, (&raw const epilogue.scale).addr() as Address));
            }
        }
        let (ids, addresses): (Vec<i64>, Vec<Address>) = bound.into_iter().unzip();
        let pack = Descriptor::new(self.planner.library, DescriptorType::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?;
        pack.set(Attribute::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &ids)?;
        pack.set(Attribute::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &addresses)?;
        pack.set(Attribute::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &[workspace])?;
        Ok(ConvCall { plan: plan.clone(), pack: pack.finish()? })
    }

    /// Enqueues on this stream from now on.
    pub fn follow(&self, stream: Handle) -> Result<()> {
        // SAFETY: a live handle and stream.
        check("setting cuDNN's stream", unsafe { (self.planner.library.set_stream)(self.planner.handle, stream) })
    }

    pub fn enqueue(&self, call: &ConvCall) -> Result<()> {
        let Planner { library, handle } = self.planner;
        // SAFETY: a finished plan and pack, with addresses inside live buffers; the scale lives in the call's plan.
        check("a convolution", unsafe { (library.execute)(handle, call.plan.plan.raw, call.pack.raw) })
    }
}

/// The choices in a text.
fn choices_in(lines: &str) -> impl Iterator<Item = (&str, Choice)> {
    lines.lines().filter_map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
        [key, mode, index] => Some((key, (mode.parse().ok()?, index.parse().ok()?))),
        _ => None,
    })
}

/// The choices in `text` with the new ones. A new choice is kept where the text has none, or still the one that it replaces; else
/// another process has chosen meanwhile, and its choice stays.
fn merged(text: &str, changed: &HashMap<String, Option<Choice>>, choices: &HashMap<String, Choice>) -> String {
    let mut all: BTreeMap<&str, Choice> = choices_in(text).collect();
    for (key, replaced) in changed {
        if all.get(key.as_str()).is_none_or(|now| Some(now) == replaced.as_ref()) {
            all.insert(key, choices[key]);
        }
    }
    all.iter().map(|(key, choice)| choice_line(key, Some(choice))).collect()
}

/// A choice as it lies in the cache.
fn choice_line(key: &str, choice: Option<&Choice>) -> String {
    choice.map_or_else(|| format!("{key} none\n"), |(mode, index)| format!("{key} {mode} {index}\n"))
}

fn failed(what: &str, problem: &str) -> Error {
    let hint = "run `softdiff doctor`; after a device error, start the program again".into();
    Error::Device { what: what.into(), problem: problem.into(), hint }
}

fn check(what: &str, status: i32) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(failed(what, &format!("cuDNN status {status}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_of_other_processes_stay_and_new_ones_replace_only_what_they_were_made_against() {
        let choices =
            HashMap::from([("a", (0, 1)), ("b", (0, 2)), ("c", (0, 3)), ("d", (0, 4))].map(|(k, v)| (k.into(), v)));
        // b is new; c replaces one that no longer works; d was chosen by another process meanwhile.
        let changed = HashMap::from([("b", None), ("c", Some((1, 7))), ("d", None)].map(|(k, v)| (k.into(), v)));
        let text = "a 0 1\nc 1 7\nd 2 9\nother 0 0\nnot a choice at all\nx y z\n";
        assert_eq!(merged(text, &changed, &choices), "a 0 1\nb 0 2\nc 0 3\nd 2 9\nother 0 0\n");
        assert_eq!(merged("", &changed, &choices), "b 0 2\nc 0 3\nd 0 4\n");
    }
}
