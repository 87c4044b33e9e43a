//! The linear system of every correction by what was seen.

use super::Observation;
use crate::corruption::{CorruptionError, LinearMap};
use crate::linalg::dot;

/// Conjugate gradients stop when the residual has fallen by this factor, or after so many steps.
const TOLERANCE: f64 = 1e-7;
const MOST_STEPS: usize = 200;

type Result<T> = std::result::Result<T, CorruptionError>;

/// `(S^-1 + w C^T C / s^2 + A^T A / s^2) d = A^T (y - A x) / s^2`, times s^2 and for `d = R u` with `S = R R`, which
/// takes fewer steps: `(s^2 + R (w C^T C + A^T A) R) u = R A^T (y - A x)`.
pub(super) struct System<'a> {
    /// A and s.
    pub observation: &'a Observation,
    /// R, symmetric.
    pub root: &'a LinearMap,
    /// C_t with its weight w, where x_t is an observation too.
    pub path_term: Option<(&'a LinearMap, f64)>,
}

impl System<'_> {
    fn apply(&self, u: &[f64]) -> Result<Vec<f64>> {
        let (shape, map) = (self.observation.shape(), self.observation.map());
        let d = self.root.apply(shape, u)?;
        let mut sum = map.adjoint(shape, &map.apply(shape, &d)?)?;
        if let Some((corruption, weight)) = self.path_term {
            let seen = corruption.adjoint(shape, &corruption.apply(shape, &d)?)?;
            sum.iter_mut().zip(&seen).for_each(|(sum, seen)| *sum += weight * seen);
        }
        let mut out = self.root.apply(shape, &sum)?;
        let flat = self.observation.sigma().powi(2);
        out.iter_mut().zip(u).for_each(|(out, u)| *out += flat * u);
        Ok(out)
    }

    /// d for an image x and a y, by conjugate gradients (Hestenes and Stiefel 1952).
    pub fn solve(&self, x: &[f64], y: &[f64]) -> Result<Vec<f64>> {
        let (shape, map) = (self.observation.shape(), self.observation.map());
        let mut difference = map.apply(shape, x)?;
        difference.iter_mut().zip(y).for_each(|(a, y)| *a = y - *a);
        let mut residual = self.root.apply(shape, &map.adjoint(shape, &difference)?)?;
        let mut u = vec![0.0; x.len()];
        let mut direction = residual.clone();
        let mut square = dot(&residual, &residual);
        let enough = TOLERANCE * TOLERANCE * square;
        for _ in 0..MOST_STEPS {
            if square <= enough {
                break;
            }
            let image = self.apply(&direction)?;
            let length = square / dot(&direction, &image);
            for i in 0..u.len() {
                u[i] += length * direction[i];
                residual[i] -= length * image[i];
            }
            let next = dot(&residual, &residual);
            direction.iter_mut().zip(&residual).for_each(|(p, r)| *p = r + next / square * *p);
            square = next;
        }
        self.root.apply(shape, &u)
    }
}
