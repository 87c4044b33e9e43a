//! From images to a schedule, with its spread over several choices of them.

use super::file::{DataRecord, Method, Schedule, Spread, Timing};
use super::{
    Distances, JointGrid, LazyDistances, ScheduleError, ScheduleProgress, TransportMetric, equal_arc_length,
    find_knots, mse_matched, paired_distances, usual_candidates,
};
use crate::corruption::Corruption;
use crate::curve::{Curve, Interpolation};
use crate::linalg::Matrix;
use softdiff_engine::hash::ContentHash;
use softdiff_engine::pixels::PixelValue;
use softdiff_engine::rng::RandomStream;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What schedule to make.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where the images come from, in words.
    pub source: String,
    /// Levels to choose from, rising.
    pub candidates: Vec<f64>,
    /// Number of knots; the paper has 32.
    pub knots: usize,
    /// The distance.
    pub metric: TransportMetric,
    /// How to choose; limits and flags of [`Method::ShortestPath`] are found, not read.
    pub method: Method,
    /// How levels run between knots.
    pub interpolation: Interpolation,
    /// The noise over time and when the corruption begins, which [`Method::MseMatched`] takes into account.
    pub timing: Timing,
    /// Images to measure, drawn without repetition.
    pub images: usize,
    /// Seed of their choice; further choices take the seeds after it.
    pub seed: u64,
    /// How many choices of images to compare; 1 gives no spread.
    pub resamplings: usize,
}

impl Request {
    /// The paper's schedule: 32 of 256 levels by the shortest path, measured on 1024 images of a source that has `available`.
    pub fn paper(corruption: &dyn Corruption, source: &str, available: usize) -> Result<Request, ScheduleError> {
        Ok(Request {
            source: source.to_owned(),
            candidates: usual_candidates(corruption, 256)?,
            knots: 32,
            metric: TransportMetric::Paired,
            method: Method::ShortestPath { max_hop: 0.0 },
            interpolation: Interpolation::Linear,
            timing: Timing::PAPER,
            images: available.min(1024),
            seed: 0,
            resamplings: 1,
        })
    }
}

/// Makes the schedule of a corruption for the images of a source (all of them, one after the other; only those that are
/// measured are converted to f64).
pub fn plan<V: PixelValue>(
    corruption: &dyn Corruption,
    source: &[V],
    request: &Request,
    progress: &ScheduleProgress<'_>,
) -> Result<Schedule, ScheduleError> {
    // What cannot be is said before anything is measured.
    // Matched levels lie between candidates, so there may be more of them.
    let matched = matches!(request.method, Method::MseMatched { .. });
    let freely = matched || matches!(request.method, Method::Joint { .. });
    if request.knots < 2 || (request.knots > request.candidates.len() && !freely) {
        return Err(ScheduleError::Knots { knots: request.knots, candidates: request.candidates.len() });
    }
    let available = corruption.shape().count(source)?;
    if request.images == 0 || available < request.images {
        return Err(ScheduleError::Images { found: available, needed: request.images.max(1) });
    }
    let seeds: Vec<u64> = (0..request.resamplings.max(1) as u64).map(|k| request.seed.wrapping_add(k)).collect();
    let measure = || {
        let run = |&seed: &u64| {
            let images = choose(source, corruption.shape().len(), request.images, seed);
            choose_knots(corruption, &images, request, progress)
        };
        seeds.iter().map(run).collect::<Result<Vec<_>, _>>()
    };
    // The hash takes one thread seconds, in which the others measure.
    let (hash, runs) = rayon::join(|| ContentHash::of_values(source.iter().map(|value| value.unit())), measure);
    let mut runs = runs?;
    let all_knots: Vec<Vec<f64>> = runs.iter().map(|run| run.knots.clone()).collect();
    let spread = (seeds.len() > 1).then(|| Spread::of(seeds, &all_knots));
    let unconverged = runs.iter().map(|run| run.unconverged).sum();
    let ChosenKnots { method, knots, sigmas, hops, equal_arc_length, .. } = runs.swap_remove(0);
    Ok(Schedule {
        format: Schedule::current_format(),
        corruption: corruption.describe(),
        shape: corruption.shape(),
        method,
        metric: if matches!(method, Method::Joint { .. }) { TransportMetric::Paired } else { request.metric },
        data: DataRecord {
            source: request.source.clone(),
            hash: hash.to_string(),
            available,
            images: request.images,
            seed: request.seed,
        },
        candidates: request.candidates.clone(),
        path_cost: hops.iter().sum(),
        knots,
        hops,
        sigmas,
        interpolation: request.interpolation,
        timing: matched.then(|| request.timing.clone()),
        equal_arc_length,
        unconverged,
        spread,
    })
}

/// `count` images drawn without repetition.
fn choose<V: PixelValue>(source: &[V], length: usize, count: usize, seed: u64) -> Vec<f64> {
    let mut order = RandomStream::new(seed, "images of a schedule").permutation(source.len() / length);
    order.truncate(count);
    order.sort_unstable();
    order.iter().flat_map(|&image| &source[image * length..(image + 1) * length]).map(|value| value.unit()).collect()
}

struct ChosenKnots {
    method: Method,
    knots: Vec<f64>,
    sigmas: Option<Vec<f64>>,
    hops: Vec<f64>,
    equal_arc_length: Vec<f64>,
    unconverged: usize,
}

fn choose_knots(
    corruption: &dyn Corruption,
    images: &[f64],
    request: &Request,
    progress: &ScheduleProgress<'_>,
) -> Result<ChosenKnots, ScheduleError> {
    let candidates = &request.candidates;
    let paired = match (request.metric, request.method) {
        // A squared error is of an image and the same image, whatever distance the hops are measured by.
        (TransportMetric::Paired, _) | (_, Method::MseMatched { .. } | Method::Joint { .. }) => {
            Some(paired_distances(corruption, candidates, images, progress)?)
        }
        _ => None,
    };
    let errors = || -> Vec<f64> {
        paired.iter().flat_map(|distances| (0..candidates.len()).map(|k| distances[(0, k)].powi(2))).collect()
    };
    if let (Method::Joint { smallest, largest, noise_levels, .. }, Some(distances)) = (request.method, &paired) {
        let squared = Matrix::from_fn(candidates.len(), candidates.len(), |i, j| distances[(i, j)].powi(2));
        let sigmas = geometric(smallest, largest, noise_levels)?;
        let found = JointGrid::new(squared, sigmas.clone(), corruption.shape().len())?.find_knots(request.knots)?;
        let steps: Vec<f64> = (1..candidates.len()).map(|k| distances[(k - 1, k)]).collect();
        return Ok(ChosenKnots {
            method: Method::Joint { max_hop: found.max_hop, smallest, largest, noise_levels },
            knots: found.nodes.iter().map(|node| candidates[node.0]).collect(),
            sigmas: Some(found.nodes.iter().map(|node| sigmas[node.1]).collect()),
            hops: found.hops,
            equal_arc_length: equal_arc_length(candidates, &steps, request.knots)?,
            unconverged: 0,
        });
    }
    if let (TransportMetric::Paired, Some(distances)) = (request.metric, &paired) {
        return choose_from(distances, &errors(), corruption, request);
    }
    let shape = corruption.shape();
    let cloud = |index: usize| -> Result<Matrix, ScheduleError> {
        let values = corruption.at(candidates[index])?.apply_batch(shape, images)?;
        Ok(Matrix::from_vec(request.images, shape.len(), values).map_err(crate::corruption::CorruptionError::from)?)
    };
    let triangle = request.metric.obeys_triangle_inequality();
    let unconverged = AtomicUsize::new(0);
    let distances = LazyDistances::new(candidates.len(), triangle, progress, |i, j| {
        let estimate = request.metric.measure(&cloud(i)?, &cloud(j)?)?;
        unconverged.fetch_add(usize::from(!estimate.converged), Ordering::Relaxed);
        Ok(estimate.distance())
    });
    let chosen = choose_from(&distances, &errors(), corruption, request)?;
    Ok(ChosenKnots { unconverged: unconverged.load(Ordering::Relaxed), ..chosen })
}

/// `errors`: the mean squared change of an image by each candidate, for the method that matches them.
fn choose_from(
    distances: &impl Distances,
    errors: &[f64],
    corruption: &dyn Corruption,
    request: &Request,
) -> Result<ChosenKnots, ScheduleError> {
    let candidates = &request.candidates;
    let last = candidates.len() - 1;
    // Steps between neighbours lie below any limit under which a path exists, so the search below measures them too.
    distances.prepare(0.0)?;
    let mut limit = 0.0;
    let steps: Vec<f64> = loop {
        let known = (0..last).map(|k| distances.within(k, k + 1, f64::INFINITY));
        if let Some(steps) = known.collect::<Option<Vec<f64>>>() {
            break steps;
        }
        limit = f64::max(2.0 * limit, 1e-3 * distances.within(0, last, f64::INFINITY).unwrap_or(1.0));
        distances.prepare(limit)?;
    };
    let equal = equal_arc_length(candidates, &steps, request.knots)?;
    let sigmas = None;
    match request.method {
        Method::ShortestPath { .. } => {
            let found = find_knots(distances, request.knots)?;
            let knots = found.path.nodes.iter().map(|&node| candidates[node]).collect();
            let method = Method::ShortestPath { max_hop: found.max_hop };
            Ok(ChosenKnots { method, knots, sigmas, hops: found.path.hops, equal_arc_length: equal, unconverged: 0 })
        }
        Method::EqualArcLength => {
            let hops = hops_along(candidates, &steps, &equal)?;
            let knots = equal.clone();
            Ok(ChosenKnots { method: request.method, knots, sigmas, hops, equal_arc_length: equal, unconverged: 0 })
        }
        Method::MseMatched { pace, .. } => {
            let Timing { noise, start } = &request.timing;
            // Knots lie at equal times from the start of the corruption to t = 1.
            let part = |k: usize| k as f64 / (request.knots - 1) as f64;
            let times: Vec<f64> = (0..request.knots)
                .map(|k| if k + 1 == request.knots { 1.0 } else { start + (1.0 - start) * part(k) })
                .collect();
            let added: Vec<f64> =
                times.iter().map(|&t| corruption.shape().len() as f64 * noise.sigma(t).powi(2)).collect();
            let mut knots = mse_matched(candidates, errors, pace, &times, &added)?;
            // A path starts at the image itself.
            knots[0] = candidates[0];
            let hops = hops_along(candidates, &steps, &knots)?;
            Ok(ChosenKnots { method: request.method, knots, sigmas, hops, equal_arc_length: equal, unconverged: 0 })
        }
        // Found on a grid of both, above.
        Method::Joint { .. } => Err(ScheduleError::Knots { knots: request.knots, candidates: candidates.len() }),
    }
}

/// Noise levels at equal ratios.
fn geometric(smallest: f64, largest: f64, count: usize) -> Result<Vec<f64>, ScheduleError> {
    if !(smallest > 0.0 && smallest < largest && largest.is_finite() && count >= 2) {
        let remedy = "give at least two noise levels that rise from above 0, such as 24 from 0.01 to 0.1";
        return Err(ScheduleError::Range { what: "the noise to choose from", from: smallest, to: largest, remedy });
    }
    let last = count - 1;
    let at = |k: usize| if k == last { largest } else { smallest * (largest / smallest).powf(k as f64 / last as f64) };
    Ok((0..count).map(at).collect())
}

/// Lengths along the chain of candidates between levels that need not be candidates.
fn hops_along(candidates: &[f64], steps: &[f64], knots: &[f64]) -> Result<Vec<f64>, ScheduleError> {
    let mut arcs = vec![0.0];
    for step in steps {
        arcs.push(arcs[arcs.len() - 1] + step);
    }
    let arc = Curve::new(candidates.to_vec(), arcs, Interpolation::Linear)?;
    Ok(knots.windows(2).map(|pair| arc.value(pair[1]) - arc.value(pair[0])).collect())
}
