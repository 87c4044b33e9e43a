//! The 2-Wasserstein distance of the Gaussians fitted to two clouds.

use super::{Estimate, TransportError, check_clouds};
use crate::linalg::{Matrix, singular_values, triangular_factor};

/// `|m1 - m2|^2 + tr S1 + tr S2 - 2 tr (S1^1/2 S2 S1^1/2)^1/2`, covariances with divisor n.
///
/// The last trace is the nuclear norm of `Xc Yc^T / n`, so no d x d matrix is formed and singular covariances are no
/// trouble. A lower bound of W2^2 for any distributions with these moments (Gelbrich 1990). Error: rounding of the
/// difference.
pub fn bures(x: &Matrix, y: &Matrix) -> Result<Estimate, TransportError> {
    check_clouds(x, y)?;
    let (mean_x, mean_y) = (x.row_mean(), y.row_mean());
    let means: f64 = mean_x.iter().zip(&mean_y).map(|(a, b)| (a - b).powi(2)).sum();
    let (factor_x, factor_y) = (covariance_factor(x, &mean_x), covariance_factor(y, &mean_y));
    let trace = |factor: &Matrix| factor.values().iter().map(|v| v * v).sum::<f64>();
    let traces = trace(&factor_x) + trace(&factor_y);
    let nuclear: f64 = singular_values(&factor_x.times_transposed(&factor_y))?.iter().sum();
    let value = (means + traces - 2.0 * nuclear).max(0.0);
    // Every singular value carries the rounding of the largest.
    let error = 4.0 * f64::EPSILON * factor_x.rows() as f64 * (means + traces);
    Ok(Estimate { value, converged: true, iterations: 1, error })
}

/// F with `F^T F` the covariance, and no more rows than the space has dimensions.
fn covariance_factor(cloud: &Matrix, mean: &[f64]) -> Matrix {
    let mut factor = cloud.centred(mean);
    if factor.rows() > factor.cols() {
        factor = triangular_factor(&factor);
    }
    let scale = 1.0 / (cloud.rows() as f64).sqrt();
    factor.values_mut().iter_mut().for_each(|v| *v *= scale);
    factor
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff_engine::rng::RandomStream;

    #[test]
    fn a_linear_map_of_a_cloud_lies_at_its_closed_form() {
        let mut stream = RandomStream::new(4, "bures");
        // For y = D x + s with D positive diagonal the optimal map is D itself when x has uncorrelated coordinates.
        let x = Matrix::from_fn(4, 2, |i, j| [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]][i][j]);
        let y = Matrix::from_fn(4, 2, |i, j| x[(i, j)] * [2.0, 0.5][j] + [3.0, 0.0][j]);
        assert!((bures(&x, &y).unwrap().value - (9.0 + 1.0 + 0.25)).abs() < 1e-13);
        let many = Matrix::from_fn(300, 6, |_, _| stream.normal());
        assert!(bures(&many, &many).unwrap().value < 1e-13);
    }

    #[test]
    fn more_points_than_dimensions_or_fewer_give_the_same_distance() {
        let mut stream = RandomStream::new(5, "bures");
        let x = Matrix::from_fn(12, 5, |_, _| stream.normal());
        let y = Matrix::from_fn(9, 5, |_, _| 2.0 * stream.normal() + 1.0);
        let padded = |cloud: &Matrix| Matrix::from_fn(cloud.rows(), 40, |i, j| if j < 5 { cloud[(i, j)] } else { 0.0 });
        let (thin, wide) = (bures(&x, &y).unwrap().value, bures(&padded(&x), &padded(&y)).unwrap().value);
        assert!((thin - wide).abs() < 1e-12 * thin);
    }
}
