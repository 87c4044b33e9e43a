//! Singular values by one-sided Jacobi rotations.

use super::Matrix;
use super::matrix::{dot, norm};

const MAX_SWEEPS: usize = 60;

/// Singular values, largest first, each to nearly full relative accuracy (Hestenes).
///
/// Going through the eigenvalues of `A^T A` instead would lose half the digits of the small ones, and a nuclear norm
/// sums all of them.
pub fn singular_values(a: &Matrix) -> Vec<f64> {
    let mut vectors = if a.rows() <= a.cols() { a.clone() } else { a.transposed() };
    let (n, m) = (vectors.rows(), vectors.cols());
    let tolerance = f64::EPSILON * (m as f64).sqrt();
    for _ in 0..MAX_SWEEPS {
        let mut rotated = false;
        for p in 0..n {
            for q in p + 1..n {
                let (head, tail) = vectors.values_mut().split_at_mut(q * m);
                rotated |= orthogonalise(&mut head[p * m..(p + 1) * m], &mut tail[..m], tolerance);
            }
        }
        if !rotated {
            break;
        }
    }
    let mut values: Vec<f64> = (0..n).map(|i| norm(vectors.row(i))).collect();
    values.sort_by(|x, y| y.total_cmp(x));
    values
}

/// Rotates x and y until they are orthogonal; false if they were already.
fn orthogonalise(x: &mut [f64], y: &mut [f64], tolerance: f64) -> bool {
    let (xx, yy, xy) = (dot(x, x), dot(y, y), dot(x, y));
    if xy.abs() <= tolerance * (xx * yy).sqrt() || xy == 0.0 {
        return false;
    }
    let zeta = (yy - xx) / (2.0 * xy);
    let tangent = zeta.signum() / (zeta.abs() + zeta.hypot(1.0));
    let cosine = 1.0 / tangent.hypot(1.0);
    let sine = cosine * tangent;
    for (a, b) in x.iter_mut().zip(y.iter_mut()) {
        (*a, *b) = (cosine * *a - sine * *b, sine * *a + cosine * *b);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_one_matrix_has_one_singular_value() {
        let a = Matrix::from_fn(5, 4, |i, j| (i + 1) as f64 * (j + 2) as f64);
        let values = singular_values(&a);
        let expected = (55.0f64 * (4.0 + 9.0 + 16.0 + 25.0)).sqrt();
        assert!((values[0] - expected).abs() < 1e-12 * expected);
        assert!(values[1..].iter().all(|v| v.abs() < 1e-12));
    }

    /// The lower triangle of ones has singular values 1 / (2 cos(k pi / (2n+1))).
    #[test]
    fn the_summation_matrix_has_its_known_singular_values() {
        let n = 40;
        let values = singular_values(&Matrix::from_fn(n, n, |i, j| if j <= i { 1.0 } else { 0.0 }));
        for (k, value) in values.iter().rev().enumerate() {
            let angle = (k + 1) as f64 * std::f64::consts::PI / (2 * n + 1) as f64;
            let expected = 1.0 / (2.0 * angle.cos());
            assert!((value - expected).abs() < 1e-12 * expected, "{k}: {value} against {expected}");
        }
    }
}
