//! Log-likelihood by the probability flow (Song et al. 2021, appendix D; here for any linear path).
//!
//! `log q_0(x) = log p_1(x_1) + integral of div u(x_t, t) dt` along the flow from t = 0 to 1, where
//! `u = M x0_hat + (dsigma/sigma) x` with `M = dC/dt - (dsigma/sigma) C`, so that `div u = tr(M J) + d dsigma/sigma`, J being
//! the Jacobian of `x0_hat`. Derivatives of the denoiser are central differences: two evaluations per direction.

use super::centred::Centred;
use super::dormand_prince::{integrate, velocity};
use super::{Denoiser, Result, SamplerError, Tolerance, checked_x0_hat};
use crate::corruption::LinearMap;
use crate::path::Path;
use softdiff_engine::rng::RandomStream;

/// Size of the differences in units of the noise, within which a denoiser is smooth; large enough for networks in f32.
const DIFFERENCE: f64 = 1e-2;
/// Their size where there is no noise.
const SMALLEST_DIFFERENCE: f64 = 1e-4;

/// Where the flow begins on a path without noise at its start; score_sde's.
const NEARLY_CLEAN: f64 = 1e-5;

/// How the trace of the Jacobian is found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Trace {
    /// Along every coordinate: exact, for small dimension.
    Exact,
    /// Along `probes` random directions of +-1, the same at all times (Hutchinson).
    Hutchinson {
        /// How many.
        probes: usize,
        /// Which.
        seed: u64,
    },
}

/// A log-likelihood.
#[derive(Debug, Clone, PartialEq)]
pub struct Likelihood {
    /// ln q_0(x), in nats; with noise at the path's start it is that of the image plus this noise.
    pub nats: f64,
    /// Where the flow took the image.
    pub x1: Vec<f64>,
}

impl Likelihood {
    /// Bits per value.
    pub fn bits_per_dimension(&self) -> f64 {
        -self.nats / (self.x1.len() as f64 * std::f64::consts::LN_2)
    }
}

/// ln q_0 of one image under the flow of `denoiser`, given `ln p_1`.
pub fn log_likelihood(
    path: &Path,
    denoiser: &mut dyn Denoiser,
    x: &[f64],
    log_p1: &dyn Fn(&[f64]) -> f64,
    trace: Trace,
    tolerance: Tolerance,
) -> Result<Likelihood> {
    let d = path.shape().len();
    let size = SamplerError::Size { what: "the image", found: x.len(), expected: d };
    match x.len() == d {
        true => log_likelihoods(path, denoiser, x, log_p1, trace, tolerance)?.pop().ok_or(size),
        false => Err(size),
    }
}

/// The same for several images, which take the steps of the worst of them. Image i has the random directions of seed + i.
pub fn log_likelihoods(
    path: &Path,
    denoiser: &mut dyn Denoiser,
    images: &[f64],
    log_p1: &dyn Fn(&[f64]) -> f64,
    trace: Trace,
    tolerance: Tolerance,
) -> Result<Vec<Likelihood>> {
    let (d, count) = (path.shape().len(), path.shape().count(images)?);
    let directions = directions(trace, d, count)?;
    let mut denoiser = Centred { inner: denoiser, centre: path.centre() };
    // The divergence is followed per value, so that the tolerance is one of bits per dimension.
    let slope = |t: f64, state: &[f64]| {
        let x = &state[..count * d];
        let mut out = velocity(path, &mut denoiser, t, x)?;
        out.extend(divergences(path, &mut denoiser, t, x, &directions)?.iter().map(|total| total / d as f64));
        Ok(out)
    };
    let mut state: Vec<f64> = images.iter().map(|x| x - path.centre()).collect();
    state.resize(count * (d + 1), 0.0);
    let start = if path.sigma(0.0) > 0.0 { 0.0 } else { NEARLY_CLEAN };
    let end = integrate(slope, (start, 1.0), state, tolerance)?;
    let (ends, gained) = end.split_at(count * d);
    let one = |(x1, gained): (&[f64], &f64)| {
        let x1: Vec<f64> = x1.iter().map(|x| x + path.centre()).collect();
        Likelihood { nats: log_p1(&x1) + gained * d as f64, x1 }
    };
    Ok(ends.chunks_exact(d).zip(gained).map(one).collect())
}

/// Directions v, of all images at once, such that the sum of `v^T A v` is the trace of A, or its mean.
fn directions(trace: Trace, d: usize, count: usize) -> Result<Vec<Vec<f64>>> {
    match trace {
        Trace::Exact => {
            let one = |i: usize| (0..count * d).map(|j| f64::from(u8::from(i == j % d))).collect();
            Ok((0..d).map(one).collect())
        }
        Trace::Hutchinson { probes: 0, .. } => {
            let remedy = "give at least one random direction";
            Err(SamplerError::Option { sampler: "likelihood", option: "the number of probes", value: 0.0, remedy })
        }
        Trace::Hutchinson { probes, seed } => {
            let scale = 1.0 / (probes as f64).sqrt();
            let of_image = |image: usize, probe: usize| {
                let mut stream = RandomStream::numbered(seed.wrapping_add(image as u64), "hutchinson", probe);
                (0..d).map(move |_| if stream.uniform() < 0.5 { -scale } else { scale })
            };
            Ok((0..probes).map(|probe| (0..count).flat_map(|image| of_image(image, probe)).collect()).collect())
        }
    }
}

/// div u = tr(M J) + d dsigma/sigma, of each image.
fn divergences(
    path: &Path,
    denoiser: &mut dyn Denoiser,
    t: f64,
    x: &[f64],
    directions: &[Vec<f64>],
) -> Result<Vec<f64>> {
    let (moment, speed, d) = (path.at(t)?, path.derivative(t)?, path.shape().len());
    let rate = if speed.sigma == 0.0 { 0.0 } else { speed.sigma / moment.sigma };
    let map = LinearMap::Sum(vec![speed.map, moment.map.scaled(-rate)]);
    let mut totals = vec![rate * d as f64; x.len() / d];
    for direction in directions {
        let largest = direction.iter().fold(0f64, |m, v| m.max(v.abs()));
        let size = if moment.sigma > 0.0 { DIFFERENCE * moment.sigma } else { SMALLEST_DIFFERENCE } / largest;
        let shifted = |sign: f64| -> Vec<f64> { x.iter().zip(direction).map(|(x, v)| x + sign * size * v).collect() };
        let ahead = checked_x0_hat(denoiser, &shifted(1.0), t)?;
        let behind = checked_x0_hat(denoiser, &shifted(-1.0), t)?;
        let slope: Vec<f64> = ahead.iter().zip(&behind).map(|(a, b)| (a - b) / (2.0 * size)).collect();
        let changed = map.apply_batch(path.shape(), &slope)?;
        for ((total, m), v) in totals.iter_mut().zip(changed.chunks_exact(d)).zip(direction.chunks_exact(d)) {
            *total += m.iter().zip(v).map(|(m, v)| m * v).sum::<f64>();
        }
    }
    Ok(totals)
}
