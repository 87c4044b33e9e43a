//! The spectral norm of a linear map, by Lanczos iteration on C^T C.
//!
//! Power iteration needs thousands of steps for weak blurs, whose leading singular values nearly coincide; Lanczos takes
//! the best of the whole Krylov space and needs some dozens.

use super::{CorruptionError, LinearMap, Shape};
use crate::linalg::{Matrix, SymmetricEigen, dot, norm as length};
use softdiff_engine::rng::RandomStream;

const MAX_ITERATIONS: usize = 160;
/// How often the small eigenproblem is solved.
const CHECK_EVERY: usize = 8;
const TOLERANCE: f64 = 1e-8;

/// The largest factor by which a map stretches an image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OperatorNorm {
    /// The norm; never above the true one but for rounding.
    pub value: f64,
    /// Whether the iteration settled to about 1e-8.
    pub converged: bool,
    /// Applications of C and its adjoint.
    pub iterations: usize,
}

impl LinearMap {
    /// The spectral norm ||C||.
    pub fn norm(&self, shape: Shape) -> Result<OperatorNorm, CorruptionError> {
        self.check(shape)?;
        let mut basis: Vec<Vec<f64>> = Vec::new();
        let (mut alphas, mut betas) = (Vec::new(), Vec::new());
        let mut next = RandomStream::new(0, "operator norm").normals(shape.len());
        let mut beta = length(&next);
        let limit = MAX_ITERATIONS.min(shape.len());
        loop {
            let unit: Vec<f64> = next.iter().map(|v| v / beta).collect();
            next = self.adjoint(shape, &self.apply(shape, &unit)?)?;
            alphas.push(dot(&next, &unit));
            basis.push(unit);
            // Twice is enough to keep the basis orthogonal to rounding.
            for vector in basis.iter().chain(&basis) {
                let part = dot(&next, vector);
                next.iter_mut().zip(vector).for_each(|(n, v)| *n -= part * v);
            }
            beta = length(&next);
            betas.push(beta);
            let exhausted = beta <= f64::EPSILON * alphas[0].abs() || basis.len() == limit;
            if exhausted || basis.len().is_multiple_of(CHECK_EVERY) {
                let (largest, error) = largest_ritz_value(&alphas, &betas)?;
                let converged = error <= TOLERANCE * largest || basis.len() == shape.len();
                if exhausted || converged {
                    return Ok(OperatorNorm { value: largest.max(0.0).sqrt(), converged, iterations: basis.len() });
                }
            }
        }
    }
}

/// The largest eigenvalue of the Lanczos matrix and a bound of its error.
fn largest_ritz_value(alphas: &[f64], betas: &[f64]) -> Result<(f64, f64), CorruptionError> {
    let n = alphas.len();
    let tridiagonal = Matrix::from_fn(n, n, |i, j| match i.abs_diff(j) {
        0 => alphas[i],
        1 => betas[i.min(j)],
        _ => 0.0,
    });
    let eigen = SymmetricEigen::new(&tridiagonal)?;
    let residual = (betas[n - 1] * eigen.vectors[(0, n - 1)]).abs();
    // A Ritz value's error is at most the residual, and second order in it once its neighbour is further away.
    let gap = eigen.values[0] - eigen.values.get(1).copied().unwrap_or(0.0);
    Ok((eigen.values[0], residual.min(residual * residual / gap.max(f64::MIN_POSITIVE))))
}
