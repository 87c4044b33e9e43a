//! Eigen-decomposition of a symmetric matrix.

use super::{LinalgError, Matrix};
use faer::{MatRef, Side};

/// `A = sum_k values[k] v_k v_k^T`, largest eigenvalue first.
#[derive(Debug, Clone)]
pub struct SymmetricEigen {
    /// Eigenvalues, largest first.
    pub values: Vec<f64>,
    /// Row k is the unit eigenvector of `values[k]`.
    pub vectors: Matrix,
}

impl SymmetricEigen {
    /// Decomposes the symmetric matrix `a` (its upper triangle decides).
    pub fn new(a: &Matrix) -> Result<Self, LinalgError> {
        let n = a.rows();
        let eigen = checked(a)?.self_adjoint_eigen(Side::Upper).map_err(|_| LinalgError::NoConvergence)?;
        let (ascending, columns) = (eigen.S().column_vector(), eigen.U());
        let values = (0..n).map(|k| ascending[n - 1 - k]).collect();
        Ok(SymmetricEigen { values, vectors: Matrix::from_fn(n, n, |k, i| columns[(i, n - 1 - k)]) })
    }
}

/// The eigenvalues alone, largest first, in less time than with the vectors.
pub fn symmetric_eigenvalues(a: &Matrix) -> Result<Vec<f64>, LinalgError> {
    let mut values = checked(a)?.self_adjoint_eigenvalues(Side::Upper).map_err(|_| LinalgError::NoConvergence)?;
    values.reverse();
    Ok(values)
}

fn checked(a: &Matrix) -> Result<MatRef<'_, f64>, LinalgError> {
    if a.rows() != a.cols() {
        return Err(LinalgError::NotSquare { purpose: "an eigen-decomposition", rows: a.rows(), cols: a.cols() });
    }
    a.check_finite()?;
    Ok(a.view())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    fn second_difference(n: usize) -> Matrix {
        Matrix::from_fn(n, n, |i, j| match i.abs_diff(j) {
            0 => 2.0,
            1 => -1.0,
            _ => 0.0,
        })
    }

    #[test]
    fn the_second_difference_matrix_has_eigenvalues_of_a_sine() {
        for n in [1, 2, 3, 33, 100] {
            let eigen = SymmetricEigen::new(&second_difference(n)).unwrap();
            for (k, value) in eigen.values.iter().rev().enumerate() {
                let expected = 4.0 * ((k + 1) as f64 * PI / (2 * (n + 1)) as f64).sin().powi(2);
                assert!((value - expected).abs() < 1e-13, "n {n}, k {k}: {value} against {expected}");
            }
        }
    }

    #[test]
    fn eigenvectors_are_orthonormal_and_rebuild_the_matrix() {
        let n = 150;
        let a = Matrix::from_fn(n, n, |i, j| ((i * j) as f64 * 0.01).cos() + if i == j { i as f64 } else { 0.0 });
        let SymmetricEigen { values, vectors } = SymmetricEigen::new(&a).unwrap();
        assert!(vectors.times_transposed(&vectors).largest_difference(&Matrix::identity(n)) < 1e-12);
        let scaled = Matrix::from_fn(n, n, |k, j| values[k] * vectors[(k, j)]);
        assert!(vectors.transposed_times(&scaled).largest_difference(&a) < 1e-11);
        assert!(values.windows(2).all(|w| w[0] >= w[1]));
        let alone = symmetric_eigenvalues(&a).unwrap();
        assert!(alone.iter().zip(&values).all(|(a, b)| (a - b).abs() < 1e-13 * values[0]));
    }

    #[test]
    fn equal_eigenvalues_and_zero_matrices_are_no_trouble() {
        assert_eq!(SymmetricEigen::new(&Matrix::zeros(5, 5)).unwrap().values, vec![0.0; 5]);
        let ones = SymmetricEigen::new(&Matrix::from_fn(6, 6, |_, _| 1.0)).unwrap();
        assert!((ones.values[0] - 6.0).abs() < 1e-14 && ones.values[1..].iter().all(|v| v.abs() < 1e-14));
    }

    #[test]
    fn a_matrix_of_low_rank_converges_although_most_of_it_is_rounding_noise() {
        let mut stream = softdiff_engine::rng::RandomStream::new(8, "low rank");
        for (n, rank) in [(64, 3), (255, 24), (255, 100)] {
            // Columns of very different length, as covariances have them.
            let thin = Matrix::from_fn(n, rank, |_, j| stream.normal() * 10f64.powf(-6.0 * j as f64 / rank as f64));
            let mix = Matrix::from_fn(n, n, |_, _| stream.normal());
            let thin = mix.times(&thin);
            let values = symmetric_eigenvalues(&thin.times_transposed(&thin)).unwrap();
            assert!(values[rank - 1] > 0.0 && values[rank..].iter().all(|v| v.abs() < 1e-12 * values[0]), "{n} {rank}");
        }
    }

    #[test]
    fn nan_is_named_by_its_place() {
        let mut a = Matrix::identity(3);
        a[(1, 2)] = f64::NAN;
        assert!(matches!(SymmetricEigen::new(&a), Err(LinalgError::NotFinite { row: 1, col: 2, .. })));
    }

    #[test]
    #[ignore = "the size of an Inception covariance, some seconds: run with --ignored"]
    fn two_thousand_and_forty_eight_dimensions_are_within_reach() {
        let n = 2048;
        let SymmetricEigen { values, vectors } = SymmetricEigen::new(&second_difference(n)).unwrap();
        assert!((values[0] - 4.0 * (n as f64 * PI / (2 * (n + 1)) as f64).sin().powi(2)).abs() < 1e-12);
        assert!(vectors.times_transposed(&vectors).largest_difference(&Matrix::identity(n)) < 1e-11);
    }
}
