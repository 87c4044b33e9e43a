//! Cholesky with pivoting, for matrices that may be singular.

use super::matrix::dot;
use super::{LinalgError, Matrix};
use rayon::prelude::*;

/// `F` with `F F^T = A`, for a symmetric `A` without negative eigenvalues: as many columns as the rank.
///
/// It ends where the largest entry left on the diagonal is rounding noise (Higham, Accuracy and Stability, section 10.3), so
/// directions in which `A` vanishes take no part in what is computed from `F`.
pub fn pivoted_factor(a: &Matrix) -> Result<Matrix, LinalgError> {
    let n = a.rows();
    if n != a.cols() {
        return Err(LinalgError::NotSquare { purpose: "a Cholesky factor", rows: n, cols: a.cols() });
    }
    a.check_finite()?;
    let mut left = a.diagonal_values();
    let noise = n as f64 * f64::EPSILON * left.iter().copied().fold(0.0, f64::max);
    let mut factor = Matrix::zeros(n, n);
    let mut rank = 0;
    while rank < n {
        let (pivot, size) =
            (0..n).map(|i| (i, left[i])).fold((0, f64::MIN), |best, at| if at.1 > best.1 { at } else { best });
        if size <= noise {
            break;
        }
        let root = size.sqrt();
        let pivot_row = factor.row(pivot)[..rank].to_vec();
        let rows = factor.values_mut().par_chunks_mut(n).zip(left.par_iter_mut()).enumerate().with_min_len(32);
        rows.for_each(|(i, (row, left))| {
            // Rows that have been pivots are finished; what is left of them is zero.
            if *left == f64::NEG_INFINITY {
                return;
            }
            let value = (a[(i, pivot)] - dot(&row[..rank], &pivot_row)) / root;
            row[rank] = if i == pivot { root } else { value };
            *left = if i == pivot { f64::NEG_INFINITY } else { *left - value * value };
        });
        rank += 1;
    }
    Ok(Matrix::from_fn(n, rank, |i, j| factor[(i, j)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_rebuilds_its_matrix_and_has_its_rank() {
        for (n, rank) in [(1, 1), (20, 20), (60, 7)] {
            let thin =
                Matrix::from_fn(n, rank, |i, j| ((i * 13 + j * 7) % 11) as f64 - 5.0 + f64::from(u8::from(i == j)));
            let a = thin.times_transposed(&thin);
            let factor = pivoted_factor(&a).unwrap();
            assert_eq!(factor.cols(), rank);
            assert!(factor.times_transposed(&factor).largest_difference(&a) < 1e-11 * a[(0, 0)].max(1.0));
        }
        assert_eq!(pivoted_factor(&Matrix::zeros(4, 4)).unwrap().cols(), 0);
        assert!(pivoted_factor(&Matrix::zeros(4, 3)).is_err());
    }
}
