//! Singular values.

use super::{LinalgError, Matrix};

/// Singular values, largest first, each to the accuracy of the largest.
///
/// Going through the eigenvalues of `A^T A` instead would lose half the digits of the small ones, and a nuclear norm
/// sums all of them.
pub fn singular_values(a: &Matrix) -> Result<Vec<f64>, LinalgError> {
    a.check_finite()?;
    a.view().singular_values().map_err(|_| LinalgError::NoConvergence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_one_matrix_has_one_singular_value() {
        let a = Matrix::from_fn(5, 4, |i, j| (i + 1) as f64 * (j + 2) as f64);
        let values = singular_values(&a).unwrap();
        let expected = (55.0f64 * (4.0 + 9.0 + 16.0 + 25.0)).sqrt();
        assert!((values[0] - expected).abs() < 1e-12 * expected);
        assert!(values[1..].iter().all(|v| v.abs() < 1e-12));
    }

    /// The lower triangle of ones has singular values 1 / (2 cos(k pi / (2n+1))).
    #[test]
    fn the_summation_matrix_has_its_known_singular_values() {
        let n = 40;
        let values = singular_values(&Matrix::from_fn(n, n, |i, j| if j <= i { 1.0 } else { 0.0 })).unwrap();
        for (k, value) in values.iter().rev().enumerate() {
            let angle = (k + 1) as f64 * std::f64::consts::PI / (2 * n + 1) as f64;
            let expected = 1.0 / (2.0 * angle.cos());
            assert!((value - expected).abs() < 1e-12 * expected, "{k}: {value} against {expected}");
        }
    }
}
