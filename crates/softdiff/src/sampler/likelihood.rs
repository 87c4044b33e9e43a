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
use crate::random::Stream;

/// Size of the differences, relative to values of order 1.
const DIFFERENCE: f64 = 1e-4;

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
    if x.len() != d {
        return Err(SamplerError::Size { what: "the image", found: x.len(), expected: d });
    }
    let directions = directions(trace, d)?;
    let mut denoiser = Centred { inner: denoiser, centre: path.centre() };
    let slope = |t: f64, state: &[f64]| {
        let mut out = velocity(path, &mut denoiser, t, &state[..d])?;
        out.push(divergence(path, &mut denoiser, t, &state[..d], &directions)?);
        Ok(out)
    };
    let mut state: Vec<f64> = x.iter().map(|x| x - path.centre()).collect();
    state.push(0.0);
    let start = if path.sigma(0.0) > 0.0 { 0.0 } else { NEARLY_CLEAN };
    let mut x1 = integrate(slope, (start, 1.0), state, tolerance)?;
    let gained = x1.pop().unwrap_or_default();
    x1.iter_mut().for_each(|x| *x += path.centre());
    Ok(Likelihood { nats: log_p1(&x1) + gained, x1 })
}

/// Directions v such that the sum of `v^T A v` is the trace of A, or its mean.
fn directions(trace: Trace, d: usize) -> Result<Vec<Vec<f64>>> {
    match trace {
        Trace::Exact => Ok((0..d).map(|i| (0..d).map(|j| f64::from(u8::from(i == j))).collect()).collect()),
        Trace::Hutchinson { probes: 0, .. } => {
            let remedy = "give at least one random direction";
            Err(SamplerError::Option { sampler: "likelihood", option: "the number of probes", value: 0.0, remedy })
        }
        Trace::Hutchinson { probes, seed } => {
            let scale = 1.0 / (probes as f64).sqrt();
            let probe = |i: usize| {
                let mut stream = Stream::numbered(seed, "hutchinson", i);
                (0..d).map(|_| if stream.uniform() < 0.5 { -scale } else { scale }).collect()
            };
            Ok((0..probes).map(probe).collect())
        }
    }
}

/// div u = tr(M J) + d dsigma/sigma.
fn divergence(path: &Path, denoiser: &mut dyn Denoiser, t: f64, x: &[f64], directions: &[Vec<f64>]) -> Result<f64> {
    let (moment, speed) = (path.at(t)?, path.derivative(t)?);
    let rate = if speed.sigma == 0.0 { 0.0 } else { speed.sigma / moment.sigma };
    let map = LinearMap::Sum(vec![speed.map, moment.map.scaled(-rate)]);
    let mut total = rate * x.len() as f64;
    for direction in directions {
        let largest = direction.iter().fold(0f64, |m, v| m.max(v.abs()));
        let size = DIFFERENCE / largest;
        let shifted = |sign: f64| -> Vec<f64> { x.iter().zip(direction).map(|(x, v)| x + sign * size * v).collect() };
        let ahead = checked_x0_hat(denoiser, &shifted(1.0), t)?;
        let behind = checked_x0_hat(denoiser, &shifted(-1.0), t)?;
        let slope: Vec<f64> = ahead.iter().zip(&behind).map(|(a, b)| (a - b) / (2.0 * size)).collect();
        total += map.apply(path.shape(), &slope)?.iter().zip(direction).map(|(m, v)| m * v).sum::<f64>();
    }
    Ok(total)
}
