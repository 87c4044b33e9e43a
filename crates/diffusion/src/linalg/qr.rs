//! The triangular factor of a QR decomposition.

use super::Matrix;

/// R of `A = Q R`: `R^T R = A^T A`, to the accuracy of A itself, not of its square.
///
/// Rows are `min(rows, cols)`. It replaces many points by few with the same second moments.
pub fn triangular_factor(a: &Matrix) -> Matrix {
    let decomposition = a.view().qr();
    let r = decomposition.thin_R();
    Matrix::from_fn(r.nrows(), r.ncols(), |i, j| if i <= j { r[(i, j)] } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_triangular_factor_keeps_the_second_moments() {
        for (rows, cols) in [(30, 7), (7, 30), (12, 12)] {
            let a = Matrix::from_fn(rows, cols, |i, j| ((i * 7 + j * j) as f64).sin());
            let r = triangular_factor(&a);
            assert_eq!(r.rows(), rows.min(cols));
            assert!(a.transposed_times(&a).largest_difference(&r.transposed_times(&r)) < 1e-13);
            for i in 0..r.rows() {
                assert!(r.row(i)[..i].iter().all(|&v| v == 0.0));
            }
        }
    }
}
