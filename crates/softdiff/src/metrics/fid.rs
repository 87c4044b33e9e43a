//! Fréchet Inception distance (Heusel et al. 2017, Eq. 6).
//!
//! `|m1 - m2|^2 + tr S1 + tr S2 - 2 tr (S1 S2)^1/2`. With `S1 = F F^T` the last trace is the sum of the roots of the
//! eigenvalues of `F^T S2 F`, a symmetric matrix without negative eigenvalues; `F` has only as many columns as `S1` has
//! rank, so the directions in which few images have no spread add no rounding noise.

use super::{FeatureStatistics, MetricError};
use crate::linalg::{Matrix, pivoted_factor, symmetric_eigenvalues};
use softdiff_engine::cpu::product::inner_products;

/// A reference set, made ready for several comparisons.
pub struct FidReference {
    mean: Vec<f64>,
    covariance: Matrix,
    /// The transpose of `F` with `F F^T` the covariance.
    factor: Matrix,
}

/// The distance of two sets.
pub fn fid(left: &FeatureStatistics, right: &FeatureStatistics) -> Result<f64, MetricError> {
    // The set with fewer images has the lower rank.
    if left.count() < right.count() {
        FidReference::new(left)?.distance(right)
    } else {
        FidReference::new(right)?.distance(left)
    }
}

impl FidReference {
    /// Factors the covariance.
    pub fn new(statistics: &FeatureStatistics) -> Result<FidReference, MetricError> {
        let (mean, covariance) = statistics.moments()?;
        let factor = pivoted_factor(&covariance)?.transposed();
        Ok(FidReference { mean, covariance, factor })
    }

    /// The distance to another set.
    pub fn distance(&self, other: &FeatureStatistics) -> Result<f64, MetricError> {
        let (left, right) = (self.mean.len(), other.dimensions());
        if left != right {
            return Err(MetricError::Dimensions { left, right });
        }
        let (mean, covariance) = other.moments()?;
        let means: f64 = self.mean.iter().zip(&mean).map(|(a, b)| (a - b).powi(2)).sum();
        let trace = |covariance: &Matrix| covariance.diagonal_values().iter().sum::<f64>();
        // A few images have a lower rank than the reference; the factor of either will do.
        let root = if other.count() <= self.factor.rows() {
            trace_of_root(&pivoted_factor(&covariance)?.transposed(), &self.covariance)?
        } else {
            trace_of_root(&self.factor, &covariance)?
        };
        Ok(means + trace(&self.covariance) + trace(&covariance) - 2.0 * root)
    }
}

/// The trace of `(S F F^T)^1/2`, given `F^T`.
fn trace_of_root(factor: &Matrix, covariance: &Matrix) -> Result<f64, MetricError> {
    let (rank, n) = (factor.rows(), factor.cols());
    if rank == 0 {
        return Ok(0.0);
    }
    // Rows of F^T times rows of the symmetric covariance.
    let mut half = Matrix::zeros(rank, n);
    inner_products(factor.values(), covariance.values(), n, half.values_mut());
    let mut whole = Matrix::zeros(rank, rank);
    inner_products(half.values(), factor.values(), n, whole.values_mut());
    Ok(symmetric_eigenvalues(&whole)?.iter().map(|value| value.max(0.0).sqrt()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff_engine::rng::RandomStream;

    /// Four points whose moments are exact: mean `m`, covariance diag(a^2, b^2) * 4/3.
    fn cross(m: [f32; 2], [a, b]: [f32; 2]) -> FeatureStatistics {
        let point = |x: f32, y: f32| [m[0] + x * a, m[1] + y * b];
        let points = [point(1.0, 1.0), point(1.0, -1.0), point(-1.0, 1.0), point(-1.0, -1.0)].concat();
        FeatureStatistics::of(&points, 2).unwrap()
    }

    #[test]
    fn gaussians_with_diagonal_covariances_lie_at_the_closed_form() {
        let found = fid(&cross([0.0, 1.0], [2.0, 0.5]), &cross([3.0, -1.0], [1.0, 4.0])).unwrap();
        let expected = 9.0 + 4.0 + 4.0 / 3.0 * ((2.0f64 - 1.0).powi(2) + (4.0f64 - 0.5).powi(2));
        assert!((found - expected).abs() < 1e-12, "{found} against {expected}");
    }

    #[test]
    fn rotated_gaussians_lie_at_the_trace_of_the_two_by_two_root() {
        // For 2x2 matrices tr (S1 S2)^1/2 = sqrt(tr S1 S2 + 2 sqrt(det S1 S2)).
        let moments = |mean: [f64; 2], s: [f64; 3]| {
            let covariance = Matrix::from_vec(2, 2, vec![s[0], s[1], s[1], s[2]]).unwrap();
            (FeatureStatistics::from_moments(1000, mean.to_vec(), covariance.clone()), covariance)
        };
        let (left, s1) = moments([1.0, 2.0], [2.0, 0.7, 1.0]);
        let (right, s2) = moments([0.0, 2.5], [0.5, -0.3, 3.0]);
        let product = s1.times(&s2);
        let det = |m: &Matrix| m[(0, 0)] * m[(1, 1)] - m[(0, 1)] * m[(1, 0)];
        let root = (product[(0, 0)] + product[(1, 1)] + 2.0 * det(&product).sqrt()).sqrt();
        let expected = 1.25 + 3.0 + 3.5 - 2.0 * root;
        assert!((fid(&left, &right).unwrap() - expected).abs() < 1e-12);
        assert!((fid(&right, &left).unwrap() - expected).abs() < 1e-12);
    }

    #[test]
    fn the_factor_of_either_set_gives_the_same_distance() {
        let mut stream = RandomStream::new(4, "fid sides");
        let mut draw = |rows: usize, scale: f64| {
            let values: Vec<f32> = stream.normals(rows * 12).into_iter().map(|v| (v * scale) as f32).collect();
            FeatureStatistics::of(&values, 12).unwrap()
        };
        let (few, many) = (draw(6, 1.0), draw(500, 2.0));
        let one = FidReference::new(&few).unwrap().distance(&many).unwrap();
        let other = FidReference::new(&many).unwrap().distance(&few).unwrap();
        assert!((one - other).abs() < 1e-10, "{one} {other}");
    }

    #[test]
    fn a_set_is_at_distance_zero_from_itself_also_when_it_is_small_or_constant() {
        let mut stream = RandomStream::new(1, "fid");
        let few: Vec<f32> = stream.normals(5 * 40).into_iter().map(|v| v as f32).collect();
        let few = FeatureStatistics::of(&few, 40).unwrap();
        assert!(fid(&few, &few).unwrap().abs() < 1e-10);
        let constant = FeatureStatistics::of(&[3.0; 80], 40).unwrap();
        assert_eq!(fid(&constant, &constant).unwrap(), 0.0);
    }
}
