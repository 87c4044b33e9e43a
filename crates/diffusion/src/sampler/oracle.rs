//! The exact denoiser of Gaussian mixtures: E[x0 | x_t] in closed form, against which samplers and losses are proven.
//!
//! For x0 ~ sum_k w_k N(m_k, S_k), `x_t` of part k is N(C m_k, V_k) with `V_k = C S_k C^T + sigma^2 I`, and
//! `E[x0 | x_t] = sum_k r_k(x_t) (m_k + S_k C^T V_k^-1 (x_t - C m_k))` with the parts' posterior weights r_k.

use super::{Denoiser, Result, SamplerError};
use crate::linalg::{Cholesky, Matrix};
use crate::path::Path;
use softdiff_engine::rng::RandomStream;

/// One Gaussian of a mixture.
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianPart {
    /// Its share.
    pub weight: f64,
    /// Its mean.
    pub mean: Vec<f64>,
    /// Its covariance.
    pub covariance: Matrix,
}

/// The exact denoiser of a Gaussian mixture along a path, for dimensions small enough for dense matrices.
pub struct Oracle<'a> {
    path: &'a Path,
    parts: Vec<GaussianPart>,
    factors: Vec<Cholesky>,
    at: Option<(f64, Vec<Posterior>)>,
}

/// One part at one time: log weight, `C m`, the factor of V, and `S C^T`.
struct Posterior {
    log_weight: f64,
    centre: Vec<f64>,
    spread: Cholesky,
    gain: Matrix,
}

impl<'a> Oracle<'a> {
    /// The oracle of a mixture; weights are normalised.
    pub fn new(path: &'a Path, mut parts: Vec<GaussianPart>) -> Result<Self> {
        let d = path.shape().len();
        let total: f64 = parts.iter().map(|part| part.weight).sum();
        if !(total > 0.0 && total.is_finite() && parts.iter().all(|part| part.weight > 0.0)) {
            let remedy = "give at least one part, and every part a weight above 0";
            return Err(SamplerError::Option {
                sampler: "oracle",
                option: "the sum of the weights",
                value: total,
                remedy,
            });
        }
        for part in &mut parts {
            for (what, found, expected) in [
                ("a mean of the mixture", part.mean.len(), d),
                ("a covariance of the mixture", part.covariance.values().len(), d * d),
            ] {
                if found != expected {
                    return Err(SamplerError::Size { what, found, expected });
                }
            }
            part.weight /= total;
        }
        let factors = parts.iter().map(|part| Cholesky::new(&part.covariance)).collect::<Result<_, _>>()?;
        Ok(Oracle { path, parts, factors, at: None })
    }

    /// One Gaussian with independent values.
    pub fn gaussian(path: &'a Path, mean: Vec<f64>, deviations: &[f64]) -> Result<Self> {
        let squares: Vec<f64> = deviations.iter().map(|s| s * s).collect();
        Self::new(path, vec![GaussianPart { weight: 1.0, mean, covariance: Matrix::diagonal(&squares) }])
    }

    /// A sample of x0.
    pub fn draw(&self, stream: &mut RandomStream) -> Vec<f64> {
        let (mut left, mut chosen) = (stream.uniform(), 0);
        for (index, part) in self.parts.iter().enumerate() {
            chosen = index;
            left -= part.weight;
            if left < 0.0 {
                break;
            }
        }
        let normal = stream.normals(self.path.shape().len());
        let mut x = self.factors[chosen].lower().times_vector(&normal);
        x.iter_mut().zip(&self.parts[chosen].mean).for_each(|(x, m)| *x += m);
        x
    }

    /// ln q_t(x), exactly.
    pub fn log_density(&mut self, x: &[f64], t: f64) -> Result<f64> {
        self.prepare(t)?;
        let logs = self.log_joint(x);
        let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Ok(largest + logs.iter().map(|l| (l - largest).exp()).sum::<f64>().ln())
    }

    fn prepare(&mut self, t: f64) -> Result<()> {
        if self.at.as_ref().is_some_and(|(at, _)| *at == t) {
            return Ok(());
        }
        let moment = self.path.at(t)?;
        let c = moment.map.to_dense(self.path.shape())?;
        let noise = Matrix::diagonal(&vec![moment.sigma * moment.sigma; c.rows()]);
        let mut posteriors = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let gain = part.covariance.times_transposed(&c);
            let spread = Cholesky::new(&c.times(&gain).combined(1.0, &noise, 1.0))?;
            posteriors.push(Posterior {
                log_weight: part.weight.ln(),
                centre: path_mean(self.path.centre(), &c, &part.mean),
                spread,
                gain,
            });
        }
        self.at = Some((t, posteriors));
        Ok(())
    }

    /// ln of w_k N(x; C m_k, V_k) for every part.
    fn log_joint(&self, x: &[f64]) -> Vec<f64> {
        let posteriors = self.at.as_ref().map_or(&[][..], |(_, posteriors)| posteriors);
        let one = |p: &Posterior| {
            let difference: Vec<f64> = x.iter().zip(&p.centre).map(|(x, c)| x - c).collect();
            let white = p.spread.solve_lower(&difference);
            let square: f64 = white.iter().map(|v| v * v).sum();
            let normaliser = x.len() as f64 * std::f64::consts::TAU.ln() + p.spread.log_determinant();
            p.log_weight - 0.5 * (square + normaliser)
        };
        posteriors.iter().map(one).collect()
    }

    fn posterior_mean(&self, x: &[f64]) -> Vec<f64> {
        let logs = self.log_joint(x);
        let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = logs.iter().map(|l| (l - largest).exp()).collect();
        let total: f64 = weights.iter().sum();
        let posteriors = self.at.as_ref().map_or(&[][..], |(_, posteriors)| posteriors);
        let mut mean = vec![0.0; x.len()];
        for ((p, part), weight) in posteriors.iter().zip(&self.parts).zip(&weights) {
            let difference: Vec<f64> = x.iter().zip(&p.centre).map(|(x, c)| x - c).collect();
            let shift = p.gain.times_vector(&p.spread.solve(&difference));
            for ((mean, m), shift) in mean.iter_mut().zip(&part.mean).zip(&shift) {
                *mean += weight / total * (m + shift);
            }
        }
        mean
    }
}

/// `m + C (mean - m)`.
fn path_mean(centre: f64, c: &Matrix, mean: &[f64]) -> Vec<f64> {
    let from_centre: Vec<f64> = mean.iter().map(|x| x - centre).collect();
    c.times_vector(&from_centre).into_iter().map(|x| x + centre).collect()
}

impl Denoiser for Oracle<'_> {
    fn x0_hat(&mut self, xt: &[f64], t: f64) -> Result<Vec<f64>> {
        self.path.shape().count(xt)?;
        self.prepare(t)?;
        Ok(xt.chunks(self.path.shape().len()).flat_map(|x| self.posterior_mean(x)).collect())
    }
}
