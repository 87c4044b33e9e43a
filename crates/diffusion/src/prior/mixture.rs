//! A mixture of Gaussians with full covariances, fitted by expectation and maximisation.

use super::PriorError;
use crate::linalg::{Cholesky, LinalgError, Matrix, Strided, dot, multiply_into, squared_distance};
use rayon::prelude::*;
use softdiff_engine::rng::RandomStream;

const MAX_ITERATIONS: usize = 200;
/// Gain of the mean log-likelihood below which iteration stops: what is left tells nothing about the data.
const TOLERANCE: f64 = 1e-4;
/// Part of the mean variance added to every variance, so that no component collapses onto a point.
const RIDGE: f64 = 1e-6;
/// Points that are worked on together: few enough to stay in a core's cache.
const BLOCK: usize = 512;

/// One Gaussian of a mixture.
#[derive(Debug, Clone, PartialEq)]
pub struct Component {
    /// Its share.
    pub weight: f64,
    /// Its mean.
    pub mean: Vec<f64>,
    /// Its covariance.
    pub covariance: Matrix,
    /// Lower factor of the covariance.
    lower: Matrix,
}

impl Component {
    /// A Gaussian; the covariance must be positive definite.
    pub fn new(weight: f64, mean: Vec<f64>, covariance: Matrix) -> Result<Self, LinalgError> {
        let lower = Cholesky::new(&covariance)?.lower().clone();
        Ok(Component { weight, mean, covariance, lower })
    }
}

/// A mixture of Gaussians.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    /// The components.
    pub components: Vec<Component>,
    /// Mean log-likelihood of the points it was fitted to.
    pub log_likelihood: f64,
    /// Iterations used.
    pub iterations: usize,
    /// Whether the likelihood settled.
    pub converged: bool,
}

impl Mixture {
    /// Fits `count` components to the rows of `points`; one component is the plain Gaussian, in closed form.
    pub fn fit(points: &Matrix, count: usize, seed: u64) -> Result<Self, PriorError> {
        let (images, dimensions) = (points.rows(), points.cols());
        if count == 0 {
            return Err(PriorError::Zero { what: "the number of components" });
        }
        if images < 2 * count {
            return Err(PriorError::TooFewImages { images, dimensions, components: count });
        }
        points.check_finite()?;
        let mean = points.row_mean();
        let total: f64 = (0..images).map(|i| squared_distance(points.row(i), &mean)).sum();
        let ridge = RIDGE * (total / (images * dimensions) as f64).max(f64::MIN_POSITIVE);
        let mut shares = nearest_centre_shares(points, count, seed);
        let mut mixture = maximised(points, &shares, ridge)?;
        for iteration in 1..=MAX_ITERATIONS {
            let previous = mixture.log_likelihood;
            (shares, mixture.log_likelihood) = mixture.expected_shares(points)?;
            mixture.iterations = iteration;
            if count == 1 || (mixture.log_likelihood - previous).abs() < TOLERANCE {
                mixture.converged = true;
                break;
            }
            let log_likelihood = mixture.log_likelihood;
            mixture = Mixture { log_likelihood, iterations: iteration, ..maximised(points, &shares, ridge)? };
        }
        Ok(mixture)
    }

    /// One draw.
    pub fn sample(&self, stream: &mut RandomStream) -> Vec<f64> {
        let mut left = stream.uniform();
        let chosen = self.components.iter().find(|component| {
            left -= component.weight;
            left < 0.0
        });
        let Some(component) = chosen.or(self.components.last()) else { return Vec::new() };
        let white = stream.normals(component.mean.len());
        component.lower.times_vector(&white).iter().zip(&component.mean).map(|(x, m)| x + m).collect()
    }

    /// Mean and covariance of the whole mixture.
    pub fn moments(&self) -> (Vec<f64>, Matrix) {
        let dimensions = self.components.first().map_or(0, |c| c.mean.len());
        let mean: Vec<f64> =
            (0..dimensions).map(|k| self.components.iter().map(|c| c.weight * c.mean[k]).sum()).collect();
        let covariance = Matrix::from_fn(dimensions, dimensions, |i, j| {
            let part =
                |c: &Component| c.weight * (c.covariance[(i, j)] + (c.mean[i] - mean[i]) * (c.mean[j] - mean[j]));
            self.components.iter().map(part).sum()
        });
        (mean, covariance)
    }

    /// The share of each component in each point, and the mean log-likelihood.
    fn expected_shares(&self, points: &Matrix) -> Result<(Matrix, f64), PriorError> {
        let (dimensions, count) = (points.cols(), self.components.len());
        let constant = -0.5 * dimensions as f64 * std::f64::consts::TAU.ln();
        let whitening = |component: &Component| -> Result<(Matrix, f64), PriorError> {
            let factor = Cholesky::new(&component.covariance)?;
            Ok((factor.inverse_lower(), component.weight.ln() + constant - 0.5 * factor.log_determinant()))
        };
        let whitenings = self.components.par_iter().map(whitening).collect::<Result<Vec<_>, _>>()?;
        let mut shares = Matrix::zeros(points.rows(), count);
        let mut likelihoods = vec![0.0; points.rows()];
        let blocks = shares.values_mut().par_chunks_mut(BLOCK * count).zip(likelihoods.par_chunks_mut(BLOCK));
        blocks.zip(points.values().par_chunks(BLOCK * dimensions)).for_each(|((shares, likelihoods), points)| {
            for (k, (component, (inverse, rest))) in self.components.iter().zip(&whitenings).enumerate() {
                let mut centred = points.to_vec();
                for row in centred.chunks_exact_mut(dimensions) {
                    row.iter_mut().zip(&component.mean).for_each(|(x, mean)| *x -= mean);
                }
                let mut white = vec![0.0; centred.len()];
                let rows = Strided::new(&centred, likelihoods.len(), dimensions);
                multiply_into(rows, Strided::of(inverse).transposed(), &mut white, false);
                for (shares, white) in shares.chunks_exact_mut(count).zip(white.chunks_exact(dimensions)) {
                    shares[k] = rest - 0.5 * dot(white, white);
                }
            }
            for (row, likelihood) in shares.chunks_exact_mut(count).zip(likelihoods) {
                let top = row.iter().copied().fold(f64::MIN, f64::max);
                row.iter_mut().for_each(|share| *share = (*share - top).exp());
                let sum: f64 = row.iter().sum();
                row.iter_mut().for_each(|share| *share /= sum);
                *likelihood = top + sum.ln();
            }
        });
        Ok((shares, likelihoods.iter().sum::<f64>() / points.rows() as f64))
    }
}

/// The mixture that the shares make most likely. Sums over points are sums over blocks, in their order.
fn maximised(points: &Matrix, shares: &Matrix, ridge: f64) -> Result<Mixture, PriorError> {
    let (images, dimensions, count) = (points.rows(), points.cols(), shares.cols());
    let blocks = || {
        let points = points.values().par_chunks(BLOCK * dimensions);
        points.zip(shares.values().par_chunks(BLOCK * count)).map(|(points, shares)| {
            let rows = shares.len() / count;
            (Strided::new(points, rows, dimensions), Strided::new(shares, rows, count))
        })
    };
    let total_of = |parts: Vec<Vec<f64>>| {
        let mut total = vec![0.0; parts.first().map_or(0, Vec::len)];
        parts.iter().for_each(|part| total.iter_mut().zip(part).for_each(|(total, v)| *total += v));
        total
    };
    let mut totals = vec![0.0; count];
    for row in shares.values().chunks_exact(count) {
        totals.iter_mut().zip(row).for_each(|(total, share)| *total += share);
    }
    totals.iter_mut().for_each(|total| *total = total.max(f64::MIN_POSITIVE));
    let weighted_sums = blocks().map(|(points, shares)| {
        let mut sums = vec![0.0; count * dimensions];
        multiply_into(shares.transposed(), points, &mut sums, false);
        sums
    });
    let mut means = total_of(weighted_sums.collect());
    for (mean, total) in means.chunks_exact_mut(dimensions).zip(&totals) {
        mean.iter_mut().for_each(|m| *m /= total);
    }
    let scatter = |(points, shares): (Strided<'_>, Strided<'_>)| {
        let mut sums = vec![0.0; count * dimensions * dimensions];
        for (k, sums) in sums.chunks_exact_mut(dimensions * dimensions).enumerate() {
            let mean = &means[k * dimensions..][..dimensions];
            let mut weighted = Vec::with_capacity(points.data.len());
            for (x, shares) in points.data.chunks_exact(dimensions).zip(shares.data.chunks_exact(count)) {
                let part = shares[k] / totals[k];
                // In many dimensions most points have no share in most components, to the last digit.
                if part > f64::EPSILON * f64::EPSILON {
                    weighted.extend(x.iter().zip(mean).map(|(x, mean)| part.sqrt() * (x - mean)));
                }
            }
            let rows = Strided::new(&weighted, weighted.len() / dimensions, dimensions);
            multiply_into(rows.transposed(), rows, sums, false);
        }
        sums
    };
    let scatters = total_of(blocks().map(scatter).collect());
    let component = |k: usize| -> Result<Component, PriorError> {
        let scatter = scatters[k * dimensions * dimensions..][..dimensions * dimensions].to_vec();
        let mut covariance = Matrix::from_vec(dimensions, dimensions, scatter)?;
        for j in 0..dimensions {
            covariance[(j, j)] += ridge;
        }
        Ok(Component::new(totals[k] / images as f64, means[k * dimensions..][..dimensions].to_vec(), covariance)?)
    };
    let components = (0..count).into_par_iter().map(component).collect::<Result<Vec<_>, _>>()?;
    Ok(Mixture { components, log_likelihood: f64::NEG_INFINITY, iterations: 0, converged: false })
}

/// All of each point to its nearest of `count` centres, drawn far apart (k-means++).
fn nearest_centre_shares(points: &Matrix, count: usize, seed: u64) -> Matrix {
    let mut stream = RandomStream::new(seed, "centres of a mixture");
    let mut nearest = vec![(f64::INFINITY, 0); points.rows()];
    let mut centre = stream.below(points.rows());
    for k in 0..count {
        nearest.par_iter_mut().enumerate().for_each(|(i, best)| {
            let distance = squared_distance(points.row(i), points.row(centre));
            if distance < best.0 {
                *best = (distance, k);
            }
        });
        let total: f64 = nearest.iter().map(|(d, _)| d).sum();
        let mut left = stream.uniform() * total;
        centre = nearest
            .iter()
            .position(|(d, _)| {
                left -= d;
                left < 0.0
            })
            .unwrap_or(0);
    }
    Matrix::from_fn(points.rows(), count, |i, k| if nearest[i].1 == k { 1.0 } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_component_has_the_sample_moments() {
        let mut stream = RandomStream::new(1, "mixture");
        let points = Matrix::from_fn(500, 3, |_, j| stream.normal() * (j + 1) as f64 + j as f64);
        let mixture = Mixture::fit(&points, 1, 0).unwrap();
        let mean = points.row_mean();
        let centred = points.centred(&mean);
        let covariance = centred.transposed_times(&centred);
        let found = &mixture.components[0];
        assert!(mixture.converged && (found.weight - 1.0).abs() < 1e-15);
        assert!(found.mean.iter().zip(&mean).all(|(a, b)| (a - b).abs() < 1e-12));
        let scaled = covariance.combined(1.0 / 500.0, &covariance, 0.0);
        assert!(found.covariance.largest_difference(&scaled) < 1e-4);
    }

    #[test]
    fn two_clusters_are_told_apart_and_sampled_in_their_shares() {
        let mut stream = RandomStream::new(2, "clusters");
        let points = Matrix::from_fn(900, 2, |i, _| stream.normal() + if i % 3 == 0 { 10.0 } else { -10.0 });
        let mixture = Mixture::fit(&points, 2, 5).unwrap();
        assert!(mixture.converged);
        let mut weights: Vec<f64> = mixture.components.iter().map(|c| c.weight).collect();
        weights.sort_by(f64::total_cmp);
        assert!((weights[0] - 1.0 / 3.0).abs() < 1e-9);
        let high = (0..3000).filter(|_| mixture.sample(&mut stream)[0] > 0.0).count() as f64 / 3000.0;
        assert!((high - 1.0 / 3.0).abs() < 0.03);
        let (mean, _) = mixture.moments();
        assert!((mean[0] - points.row_mean()[0]).abs() < 1e-9);
        let one = Mixture::fit(&points, 1, 5).unwrap();
        assert!(mixture.log_likelihood > one.log_likelihood + 1.0);
    }

    #[test]
    fn too_few_points_are_refused() {
        let points = Matrix::zeros(3, 2);
        assert!(matches!(Mixture::fit(&points, 2, 0), Err(PriorError::TooFewImages { images: 3, .. })));
        assert!(matches!(Mixture::fit(&points, 0, 0), Err(PriorError::Zero { .. })));
    }
}
