//! The triangular factor of a QR decomposition.

use super::Matrix;
use rayon::prelude::*;

/// R of `A = Q R` by Householder reflections: `R^T R = A^T A`, to the accuracy of A itself, not of its square.
///
/// Rows are `min(rows, cols)`. It replaces many points by few with the same second moments.
pub fn triangular_factor(a: &Matrix) -> Matrix {
    // Columns as rows: reflections then run along contiguous memory, and each column is one thread's.
    let mut columns = a.transposed();
    let (n, m) = (columns.rows(), columns.cols());
    let steps = m.min(n);
    for k in 0..steps {
        let (head, tail) = columns.values_mut().split_at_mut((k + 1) * m);
        let column = &mut head[k * m..];
        let length = super::matrix::norm(&column[k..]);
        if length == 0.0 {
            continue;
        }
        let target = if column[k] > 0.0 { -length } else { length };
        let mut reflector = column[k..].to_vec();
        reflector[0] -= target;
        let squared = super::matrix::dot(&reflector, &reflector);
        column[k] = target;
        column[k + 1..].fill(0.0);
        tail.par_chunks_mut(m).with_min_len(8).for_each(|other| {
            let other = &mut other[k..];
            let factor = 2.0 * super::matrix::dot(&reflector, other) / squared;
            for (o, r) in other.iter_mut().zip(&reflector) {
                *o -= factor * r;
            }
        });
    }
    Matrix::from_fn(steps, n, |i, j| columns[(j, i)])
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
