//! Convolutions with bias, residual and scale in one kernel, which cuDNN compiles at run time: where that is faster than two passes.

use super::graph::Planner;
use super::{ConvPlan, Cudnn, Problem};
use crate::cache;
use crate::cpu::conv::Geometry;
use crate::cuda::nvrtc::hash;
use crate::error::Result;
use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The heuristic whose proposals are compiled, and how many: each takes some 0.4 s of one core. Its first five are
/// variants of one engine for Hopper.
const MODE: i32 = super::HEURISTIC_A;
const CANDIDATES: usize = 4;
/// Stored instead of a mode if two passes are faster.
const APART: i32 = -1;
/// Outputs with fewer elements are left to two passes, of which the second takes about a microsecond.
const SMALLEST: usize = 1 << 18;
/// Estimated bytes that a pass over memory moves per millisecond, and the milliseconds to start it.
const PASS_BYTES: f32 = 3e9;
const PASS_START: f32 = 1e-3;

/// Whether what follows a convolution of this size may run in its kernel.
pub(in crate::cuda) fn suits(g: &Geometry) -> bool {
    // Channels that are not in eights go to another engine, which is slower.
    let eights = g.channels.is_multiple_of(8) && g.filters.is_multiple_of(8);
    eights && g.batch * g.rows.output * g.cols.output * g.filters >= SMALLEST
}

/// Threads that compile: each takes memory.
const MOST_THREADS: usize = 8;

/// State of fusing.
#[derive(Default)]
pub(super) struct Fusion {
    /// Compiled proposals of problems that are still to be decided, with their place in the heuristic's list.
    candidates: HashMap<String, Vec<(usize, ConvPlan)>>,
    /// A handle for every thread; the plans made by them may refer to them.
    helpers: Vec<Planner>,
}

impl Cudnn {
    /// Compiles in parallel the plans of problems with epilogues; those on disk are only read.
    pub fn prepare(&mut self, problems: impl IntoIterator<Item = Problem>) {
        let mut jobs = Vec::new();
        for problem in problems.into_iter().filter(|p| p.epilogue.is_some()) {
            let key = problem.key();
            if self.plans.contains_key(&key) || self.fusion.candidates.contains_key(&key) {
                continue;
            }
            let (wanted, read) = match self.choices.get(&key) {
                Some(&(APART, _)) => continue,
                Some(&(_, index)) => (index..index + 1, self.read(&problem).map(|plan| (index, plan))),
                None => (0..CANDIDATES, None),
            };
            if read.is_none() {
                jobs.extend(wanted.map(|index| (problem, index)));
            }
            self.fusion.candidates.insert(key, read.into_iter().collect());
        }
        for (key, index, plan) in self.compile(&jobs) {
            self.fusion.candidates.entry(key).or_default().push((index, plan));
        }
        // Threads end in any order, which must not decide between equal times.
        self.fusion.candidates.values_mut().for_each(|plans| plans.sort_by_key(|(index, _)| *index));
    }

    /// Number of plans with a fused epilogue.
    pub fn fused(&self) -> usize {
        self.plans.values().filter(|plan| plan.epilogue.is_some()).count()
    }

    /// The plans of proposals, compiled on several cores; those that cannot be made are left out.
    fn compile(&mut self, jobs: &[(Problem, usize)]) -> Vec<(String, usize, ConvPlan)> {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(jobs.len()).min(MOST_THREADS);
        let (device, next) = (&self.device, AtomicUsize::new(0));
        let (helpers, made) = (Mutex::new(std::mem::take(&mut self.fusion.helpers)), Mutex::new(Vec::new()));
        let work = || -> Result<()> {
            device.enter()?;
            let idle = lock(&helpers).pop();
            let helper = idle.map_or_else(|| Planner::new(device), Ok)?;
            while let Some((problem, index)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let plan = helper.proposals(problem, MODE, *index..index + 1).ok().and_then(|mut plans| plans.next());
                if let Some(Ok(plan)) = plan {
                    lock(&made).push((problem.key(), *index, plan));
                }
            }
            lock(&helpers).push(helper);
            Ok(())
        };
        std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
        self.fusion.helpers = std::mem::take(&mut lock(&helpers));
        std::mem::take(&mut lock(&made))
    }

    /// The fused plan of a problem if it is the faster one, else the plan of its convolution alone.
    pub(super) fn fused_or_apart(&mut self, problem: &Problem) -> Result<Arc<ConvPlan>> {
        let key = problem.key();
        let apart = self.plan(&Problem { epilogue: None, ..*problem })?;
        let known = self.choices.get(&key).copied();
        self.prepare([*problem]);
        let candidates = self.fusion.candidates.remove(&key).unwrap_or_default();
        let fused = match known {
            Some((APART, _)) => None,
            Some(_) => candidates.into_iter().next().map(|(_, plan)| Arc::new(plan)),
            // No candidates may mean that the compiler was not found, which must not be cached.
            None if candidates.is_empty() => None,
            None => {
                let Ok(best) = self.faster(problem, &apart, candidates) else { return Ok(apart) };
                self.choose(&key, best.as_ref().map_or((APART, 0), |(index, _)| (MODE, *index)));
                best.map(|(_, plan)| plan)
            }
        };
        let Some(fused) = fused else { return Ok(apart) };
        // A plan read from disk has no parts.
        if let (false, Ok(text)) = (fused.parts.is_empty(), fused.text()) {
            cache::store(&self.plan_name(problem), |file| file.write_all(&text));
        }
        Ok(fused)
    }

    /// The fastest candidate, if it is faster than the convolution and a pass over its result.
    fn faster(
        &self,
        problem: &Problem,
        apart: &Arc<ConvPlan>,
        candidates: Vec<(usize, ConvPlan)>,
    ) -> Result<Option<(usize, Arc<ConvPlan>)>> {
        let [x, w, y, residual] = problem.sizes();
        let alloc = |bytes: usize| {
            let buffer = self.device.alloc(bytes)?;
            // Small finite numbers in either format.
            buffer.fill_word(0x3E1F_3E9A)?;
            Ok(buffer)
        };
        let tensors = [alloc(2 * x)?, alloc(2 * w)?, alloc(2 * y)?];
        let ends = [alloc(4 * problem.geometry.filters)?, alloc(2 * residual)?];
        let time = |plan: &Arc<ConvPlan>| {
            let workspace = self.device.alloc(plan.workspace)?;
            let (tensors, ends) = (tensors.each_ref().map(|b| b.address), ends.each_ref().map(|b| b.address));
            self.in_a_row(&self.bind(plan, tensors, ends, workspace.address)?, f32::INFINITY)
        };
        let touched = if problem.epilogue.is_some_and(|e| e.residual) { 3 } else { 2 };
        let g = &problem.geometry;
        let outputs = g.batch * g.rows.output * g.cols.output * g.filters;
        let mut limit = time(apart)? + PASS_START + (touched * 2 * outputs) as f32 / PASS_BYTES;
        let mut best = None;
        for (index, plan) in candidates {
            let plan = Arc::new(plan);
            let Ok(taken) = time(&plan) else { continue };
            if taken < limit {
                limit = taken;
                best = Some((index, plan));
            }
        }
        Ok(best)
    }

    /// The file of a compiled plan; version and GPU are in its name, because cuDNN does not check them on reading.
    fn plan_name(&self, problem: &Problem) -> String {
        format!("{}-{:016x}.json", self.cache_name().trim_end_matches(".txt"), hash(&problem.key()))
    }

    /// The compiled plan on disk; none if the file is missing or damaged.
    fn read(&self, problem: &Problem) -> Option<ConvPlan> {
        let text = std::fs::read(cache::file(&self.plan_name(problem))?).ok()?;
        self.planner.read(problem, &text).ok()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing here is left inconsistent by a panic elsewhere.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::super::{ConvEpilogue, ConvPass, Pitches};
    use super::*;
    use crate::cpu::conv::Axis;

    fn geometry(size: usize, channels: usize) -> Geometry {
        let axis = || Axis { input: size, output: size, taps: 3, stride: 1, pad: 1 };
        Geometry { batch: 128, rows: axis(), cols: axis(), channels, filters: 128 }
    }

    #[test]
    fn only_large_outputs_of_channels_in_eights_are_fused() {
        assert!(suits(&geometry(32, 128)));
        assert!(!suits(&geometry(32, 3)));
        assert!(!suits(&geometry(2, 128)));
    }

    fn problem(epilogue: Option<ConvEpilogue>, pitches: Pitches) -> Problem {
        let geometry = geometry(32, 128);
        Problem { kind: ConvPass::Forward, geometry, pitches, half: true, tf32: true, scale: 1.0, epilogue }
    }

    #[test]
    fn every_epilogue_has_a_choice_of_its_own() {
        let key = |epilogue| problem(epilogue, Pitches::dense(&geometry(32, 128))).key();
        let ends = [(false, 1.0), (true, 1.0), (true, 0.5)].map(|(residual, scale)| ConvEpilogue { residual, scale });
        let mut keys: Vec<String> = ends.into_iter().map(Some).chain([None]).map(key).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 4);
        // The line of a choice is cut at spaces.
        assert!(keys.iter().all(|key| !key.contains(' ')));
    }

    #[test]
    fn parts_of_other_tensors_have_choices_of_their_own() {
        let dense = Pitches::dense(&geometry(32, 128));
        let (bias, added) = (ConvEpilogue { residual: false, scale: 1.0 }, ConvEpilogue { residual: true, scale: 1.0 });
        // Keys of dense tensors are those of earlier versions: cached choices stay valid.
        assert_eq!(problem(Some(added), dense).key(), "fprop-bf16-n128-32k3s1p1x32k3s1p1-128to128-a1-brs1");
        let apart = Pitches { x: 256, y: 384, residual: 512 };
        assert!(problem(Some(added), apart).key().ends_with("-brs1-x256-y384-r512"));
        // Without a residual its pitch does not matter.
        let only_residual = Pitches { residual: 512, ..dense };
        assert_eq!(problem(Some(bias), only_residual).key(), problem(Some(bias), dense).key());
        assert_eq!(problem(None, only_residual).key(), problem(None, dense).key());
        assert_eq!(problem(None, apart).sizes(), [256 << 17, 9 << 14, 384 << 17, 512 << 17]);
    }
}
