//! Cholesky factorisation of a positive definite matrix.

use super::matrix::dot;
use super::{LinalgError, Matrix};
use faer::linalg::cholesky::llt::factor::LltError;
use faer::linalg::triangular_inverse::invert_lower_triangular;
use faer::{MatMut, Par, Side};

/// `A = L L^T` with L lower triangular.
#[derive(Debug, Clone)]
pub struct Cholesky {
    lower: Matrix,
}

impl Cholesky {
    /// Factors the symmetric matrix `a` (its lower triangle is read).
    pub fn new(a: &Matrix) -> Result<Self, LinalgError> {
        if a.rows() != a.cols() {
            return Err(LinalgError::NotSquare { purpose: "Cholesky", rows: a.rows(), cols: a.cols() });
        }
        a.check_finite()?;
        let n = a.rows();
        let LltError::NonPositivePivot { index } = match a.view().llt(Side::Lower) {
            Ok(factor) => {
                let lower = factor.L();
                let lower = Matrix::from_fn(n, n, |i, j| if j <= i { lower[(i, j)] } else { 0.0 });
                return Ok(Cholesky { lower });
            }
            Err(error) => error,
        };
        Err(LinalgError::NotPositiveDefinite { pivot: index })
    }

    /// The factor L.
    pub fn lower(&self) -> &Matrix {
        &self.lower
    }

    /// `L^-1 b`.
    pub fn solve_lower(&self, b: &[f64]) -> Vec<f64> {
        let mut x = b.to_vec();
        for i in 0..x.len() {
            let row = self.lower.row(i);
            x[i] = (x[i] - dot(&row[..i], &x[..i])) / row[i];
        }
        x
    }

    /// `L^-1`, for many right-hand sides at once.
    pub fn inverse_lower(&self) -> Matrix {
        let n = self.lower.rows();
        let mut inverse = Matrix::zeros(n, n);
        let target = MatMut::from_row_major_slice_mut(inverse.values_mut(), n, n);
        invert_lower_triangular(target, self.lower.view(), Par::Seq);
        inverse
    }

    /// `A^-1 b`.
    pub fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut x = self.solve_lower(b);
        for i in (0..x.len()).rev() {
            x[i] /= self.lower[(i, i)];
            let xi = x[i];
            for (j, l) in self.lower.row(i)[..i].iter().enumerate() {
                x[j] -= l * xi;
            }
        }
        x
    }

    /// ln det A.
    pub fn log_determinant(&self) -> f64 {
        2.0 * self.lower.diagonal_values().iter().map(|d| d.ln()).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second difference has determinant n + 1 and the inverse min(i,j)(n+1-max(i,j))/(n+1), counted from one.
    #[test]
    fn the_second_difference_matrix_has_its_known_determinant_and_inverse() {
        let n = 20;
        let a = Matrix::from_fn(n, n, |i, j| match i.abs_diff(j) {
            0 => 2.0,
            1 => -1.0,
            _ => 0.0,
        });
        let factor = Cholesky::new(&a).unwrap();
        assert!((factor.log_determinant() - 21f64.ln()).abs() < 1e-13);
        let mut unit = vec![0.0; n];
        unit[4] = 1.0;
        for (i, x) in factor.solve(&unit).into_iter().enumerate() {
            let (low, high) = (i.min(4) + 1, i.max(4) + 1);
            assert!((x - (low * (21 - high)) as f64 / 21.0).abs() < 1e-13);
        }
    }

    #[test]
    fn an_indefinite_matrix_is_refused_with_its_pivot() {
        let error = Cholesky::new(&Matrix::diagonal(&[1.0, -2.0])).unwrap_err();
        assert_eq!(error, LinalgError::NotPositiveDefinite { pivot: 1 });
        assert!(matches!(Cholesky::new(&Matrix::zeros(2, 3)), Err(LinalgError::NotSquare { .. })));
    }
}
