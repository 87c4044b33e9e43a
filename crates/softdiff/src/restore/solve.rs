//! The linear system of every correction by what was seen.

use super::{ImageCovariance, Observation};
use crate::corruption::{Coefficients, CorruptionError, CosineTransform, LinearMap, Shape};
use crate::linalg::dot;
use rayon::prelude::*;
use softdiff_engine::rng::RandomStream;

/// Conjugate gradients stop when the residual has fallen by this factor, or after so many steps.
const TOLERANCE: f64 = 1e-7;
const MOST_STEPS: usize = 200;
/// For images of more pixels than this it is enough to be so near.
const PHOTOGRAPH: usize = 1 << 16;
const PHOTOGRAPH_TOLERANCE: f64 = 1e-3;

type Result<T> = std::result::Result<T, CorruptionError>;

/// `(S^-1 + w C^T C / s^2 + A^T A / s^2) d = A^T (y - A x) / s^2`, times s^2 and for `d = R u` with `S = R R`, which
/// takes fewer steps: `(s^2 + R (w C^T C + A^T A) R) u = R A^T (y - A x)`.
pub(super) struct System<'a> {
    /// A and s.
    pub observation: &'a Observation,
    /// S.
    pub spread: &'a ImageCovariance,
    /// C_t with its weight w, where x_t is an observation too.
    pub path_term: Option<(&'a LinearMap, f64)>,
}

impl System<'_> {
    /// `d = a (y - A x) / (s^2 / S + w c^2 + a^2)` at each frequency, for what is common to all channels and for what is not; none
    /// where a map is not diagonal in the cosine basis.
    fn solve_at_once(&self, x: &[f64], y: &[f64]) -> Option<Vec<f64>> {
        let shape = self.observation.shape();
        let seen = self.observation.map().cosine_gains(shape)?;
        let path = match self.path_term {
            Some((map, weight)) => map.cosine_gains(shape)?.into_iter().map(|c| weight * c * c).collect(),
            None => vec![0.0; shape.pixels()],
        };
        let noise = self.observation.sigma().powi(2);
        let gain = |(i, power): (usize, f64)| seen[i] / (noise / power + path[i] + seen[i] * seen[i]);
        let gains = self.spread.powers(shape).map(|powers| powers.into_par_iter().enumerate().map(gain).collect());
        let transform = CosineTransform::new(shape.height, shape.width);
        let mut difference = transform.coefficients(shape.channels, x);
        difference.change(|i, values| values.iter_mut().for_each(|value| *value *= -seen[i]));
        difference.add(&transform.coefficients(shape.channels, y));
        filter(&mut difference, &gains);
        Some(transform.image(difference))
    }

    fn apply(&self, u: &[f64]) -> Result<Vec<f64>> {
        let (shape, map) = (self.observation.shape(), self.observation.map());
        let d = self.spread.root().apply(shape, u)?;
        let mut sum = map.adjoint(shape, &map.apply(shape, &d)?)?;
        if let Some((corruption, weight)) = self.path_term {
            let seen = corruption.adjoint(shape, &corruption.apply(shape, &d)?)?;
            sum.iter_mut().zip(&seen).for_each(|(sum, seen)| *sum += weight * seen);
        }
        let mut out = self.spread.root().apply(shape, &sum)?;
        let flat = self.observation.sigma().powi(2);
        out.iter_mut().zip(u).for_each(|(out, u)| *out += flat * u);
        Ok(out)
    }

    /// d for an image x and a y: at once where all maps are diagonal in the cosine basis, else by conjugate gradients
    /// (Hestenes and Stiefel 1952).
    pub fn solve(&self, x: &[f64], y: &[f64]) -> Result<Vec<f64>> {
        if let Some(shift) = self.solve_at_once(x, y) {
            return Ok(shift);
        }
        let (shape, map) = (self.observation.shape(), self.observation.map());
        let mut difference = map.apply(shape, x)?;
        difference.iter_mut().zip(y).for_each(|(a, y)| *a = y - *a);
        if let Some(variances) = self.variances() {
            // In the space of what was seen, where fewer steps are needed: `d = M A^T v`, `(A M A^T + s^2) v = y - A x`.
            let flat = self.observation.sigma().powi(2);
            let seen = |v: &[f64]| Ok(filtered(shape, &map.adjoint(shape, v)?, &variances));
            let v = conjugate_gradients(difference, self.tolerance(), |v| {
                let mut out = map.apply(shape, &seen(v)?)?;
                out.iter_mut().zip(v).for_each(|(out, v)| *out += flat * v);
                Ok(out)
            })?;
            return seen(&v);
        }
        let right = self.spread.root().apply(shape, &map.adjoint(shape, &difference)?)?;
        let u = conjugate_gradients(right, self.tolerance(), |u| self.apply(u))?;
        self.spread.root().apply(shape, &u)
    }

    /// The same with M scaled by the c at which `|y - A x|^2 = c tr(A M A^T) + n s^2`, from 0 to 1. Where M is not diagonal in
    /// the cosine basis, c is 1.
    pub fn solve_calibrated(&self, x: &[f64]) -> Result<Vec<f64>> {
        let (shape, map, y) = (self.observation.shape(), self.observation.map(), self.observation.values());
        let Some(variances) = self.variances() else { return self.solve(x, y) };
        // One draw from N(0, M) estimates the trace: an image has many values.
        let roots = variances.map(|variances| variances.into_iter().map(f64::sqrt).collect());
        let white = RandomStream::new(0, "error of a denoiser").normals(shape.len());
        let error = map.apply(shape, &filtered(shape, &white, &roots))?;
        let residual: f64 = map.apply(shape, x)?.iter().zip(y).map(|(a, y)| (y - a).powi(2)).sum();
        let noise = y.len() as f64 * self.observation.sigma().powi(2);
        let c = ((residual - noise) / dot(&error, &error).max(f64::MIN_POSITIVE)).min(1.0);
        if c <= 0.0 {
            return Ok(vec![0.0; x.len()]);
        }
        let path_term = self.path_term.map(|(path, weight)| (path, weight / c));
        System { observation: self.observation, spread: &self.spread.scaled(c), path_term }.solve(x, y)
    }

    /// `M = (S^-1 + w C^T C / s^2)^-1` at each frequency, of what is common to all channels and of what is not, where C is
    /// diagonal in the cosine basis.
    fn variances(&self) -> Option<[Vec<f64>; 2]> {
        let shape = self.observation.shape();
        let path = match self.path_term {
            Some((map, weight)) => {
                let precision = weight / self.observation.sigma().powi(2);
                map.cosine_gains(shape)?.into_iter().map(|c| precision * c * c).collect()
            }
            None => vec![0.0; shape.pixels()],
        };
        let variance = |(power, precision): (f64, &f64)| 1.0 / (1.0 / power + precision);
        Some(self.spread.powers(shape).map(|powers| powers.into_iter().zip(&path).map(variance).collect()))
    }

    /// Photographs are corrected at every step, so that an error of one is made good by the next.
    fn tolerance(&self) -> f64 {
        if self.observation.shape().pixels() > PHOTOGRAPH { PHOTOGRAPH_TOLERANCE } else { TOLERANCE }
    }
}

/// u with `apply(u) = right`, for a symmetric positive map.
fn conjugate_gradients(
    right: Vec<f64>,
    tolerance: f64,
    apply: impl Fn(&[f64]) -> Result<Vec<f64>>,
) -> Result<Vec<f64>> {
    let mut u = vec![0.0; right.len()];
    let mut direction = right.clone();
    let mut residual = right;
    let mut square = dot(&residual, &residual);
    let enough = tolerance * tolerance * square;
    for _ in 0..MOST_STEPS {
        if square <= enough {
            break;
        }
        let image = apply(&direction)?;
        let length = square / dot(&direction, &image);
        for i in 0..u.len() {
            u[i] += length * direction[i];
            residual[i] -= length * image[i];
        }
        let next = dot(&residual, &residual);
        direction.iter_mut().zip(&residual).for_each(|(p, r)| *p = r + next / square * *p);
        square = next;
    }
    Ok(u)
}

/// Filters the mean of an image's channels by the first gains, and their differences from it by the second.
fn filter(image: &mut Coefficients, [together, apart]: &[Vec<f64>; 2]) {
    image.change(|i, values| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter_mut().for_each(|value| *value = together[i] * mean + apart[i] * (*value - mean));
    });
}

fn filtered(shape: Shape, image: &[f64], gains: &[Vec<f64>; 2]) -> Vec<f64> {
    let transform = CosineTransform::new(shape.height, shape.width);
    let mut coefficients = transform.coefficients(shape.channels, image);
    filter(&mut coefficients, gains);
    transform.image(coefficients)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corruption::{Blur, Boundary, Corruption, Kernel};

    #[test]
    fn what_is_solved_at_once_is_what_conjugate_gradients_find() {
        for channels in [1, 3] {
            let shape = Shape::new(12, 17, channels);
            let [x, y] = ["x", "y"].map(|name| RandomStream::new(1, name).normals(shape.len()));
            let matrices = Blur::new(shape, Boundary::Reflect, 4.0).unwrap().at(1.3).unwrap();
            let filter = Kernel::gaussian(1.3).map(shape, Boundary::Reflect);
            for spread in [ImageCovariance::white(0.04).unwrap(), ImageCovariance::natural(shape, 0.04).unwrap()] {
                let [slow, fast] = [&matrices, &filter].map(|map| {
                    let observation = Observation::new(shape, map.clone(), 0.05, y.clone()).unwrap();
                    let (spread, path) = (&spread, LinearMap::Scale(0.9));
                    let system = System { observation: &observation, spread, path_term: Some((&path, 0.2)) };
                    system.solve(&x, &y).unwrap()
                });
                let far = slow.iter().zip(&fast).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(far < 1e-6, "{far}");
            }
        }
    }
}
