//! ln p_1, for likelihoods.

use super::{Modes, Prior, PriorError, Signal};
use crate::linalg::{Cholesky, Matrix, dot};
use std::f64::consts::TAU;

/// The density of a prior, with its factors worked out once.
pub struct PriorDensity<'a> {
    prior: &'a Prior,
    parts: Vec<NoisyComponent>,
}

/// A Gaussian of the coefficients, noise included: ln of its weight, its mean, and the factor of its covariance.
struct NoisyComponent {
    log_weight: f64,
    mean: Vec<f64>,
    factor: Cholesky,
}

impl Prior {
    /// Its density, which only a prior with noise has.
    pub fn density(&self) -> Result<PriorDensity<'_>, PriorError> {
        if self.sigma <= 0.0 {
            return Err(PriorError::NoDensity);
        }
        let parts = match &self.signal {
            Signal::Modes { mixture, .. } => {
                let part = |component: &super::Component| -> Result<NoisyComponent, PriorError> {
                    let noise = Matrix::diagonal(&vec![self.sigma * self.sigma; component.mean.len()]);
                    let factor = Cholesky::new(&component.covariance.combined(1.0, &noise, 1.0))?;
                    Ok(NoisyComponent { log_weight: component.weight.ln(), mean: component.mean.clone(), factor })
                };
                mixture.components.iter().map(part).collect::<Result<_, _>>()?
            }
            _ => vec![],
        };
        Ok(PriorDensity { prior: self, parts })
    }
}

impl PriorDensity<'_> {
    /// ln p_1(x) of one image.
    pub fn log(&self, x: &[f64]) -> f64 {
        let Prior { shape, sigma, centre, signal } = self.prior;
        let noise = |square: f64, dimensions: usize| {
            -0.5 * (square / (sigma * sigma) + dimensions as f64 * (TAU * sigma * sigma).ln())
        };
        match signal {
            Signal::None => noise(x.iter().map(|x| (x - centre).powi(2)).sum(), shape.len()),
            Signal::Data { images } => {
                let images = images.chunks_exact(shape.len());
                let count = images.len() as f64;
                let square = |image: &[f64]| image.iter().zip(x).map(|(a, b)| (a - b).powi(2)).sum();
                let logs: Vec<f64> = images.map(|image| noise(square(image), shape.len())).collect();
                log_sum(&logs) - count.ln()
            }
            Signal::Modes { modes, offset, .. } => self.of_modes(modes, offset, x, &noise),
        }
    }

    /// The modes are orthonormal: their coefficients and what is left are independent, and of the rest there is noise only.
    fn of_modes(&self, modes: &Modes, offset: &[f64], x: &[f64], noise: &dyn Fn(f64, usize) -> f64) -> f64 {
        let signal: Vec<f64> = x.iter().zip(offset).map(|(x, o)| x - o).collect();
        let coefficients = modes.coefficients(&signal).into_values();
        let rest = (dot(&signal, &signal) - dot(&coefficients, &coefficients)).max(0.0);
        let of_part = |part: &NoisyComponent| {
            let difference: Vec<f64> = coefficients.iter().zip(&part.mean).map(|(a, b)| a - b).collect();
            let white = part.factor.solve_lower(&difference);
            let normaliser = white.len() as f64 * TAU.ln() + part.factor.log_determinant();
            part.log_weight - 0.5 * (dot(&white, &white) + normaliser)
        };
        let logs: Vec<f64> = self.parts.iter().map(of_part).collect();
        log_sum(&logs) + noise(rest, x.len() - coefficients.len())
    }
}

/// ln of the sum of exponentials.
fn log_sum(logs: &[f64]) -> f64 {
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + logs.iter().map(|log| (log - largest).exp()).sum::<f64>().ln()
}
