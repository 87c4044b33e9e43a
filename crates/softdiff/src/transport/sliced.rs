//! Sliced Wasserstein distance: the mean over directions of one-dimensional transport, which is sorting.

use super::{Estimate, TransportError, check_clouds};
use crate::linalg::{Matrix, dot, norm};
use crate::random::Stream;
use rayon::prelude::*;

/// E over unit directions of W2^2 of the projections, times the dimension so that it compares with W2^2 (equal for a
/// shift). Error: the standard error over the directions drawn.
pub fn sliced(x: &Matrix, y: &Matrix, directions: usize, seed: u64) -> Result<Estimate, TransportError> {
    check_clouds(x, y)?;
    if directions == 0 {
        let remedy = "give at least one direction; some hundreds are usual";
        return Err(TransportError::Option { option: "the number of directions", value: 0.0, remedy });
    }
    let values: Vec<f64> = (0..directions)
        .into_par_iter()
        .map(|draw| {
            let mut direction = Stream::numbered(seed, "sliced direction", draw).normals(x.cols());
            let scale = (x.cols() as f64).sqrt() / norm(&direction);
            direction.iter_mut().for_each(|v| *v *= scale);
            on_a_line(project(x, &direction), project(y, &direction))
        })
        .collect();
    let count = directions as f64;
    let value = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|v| (v - value).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    Ok(Estimate { value, converged: true, iterations: directions, error: (variance / count).sqrt() })
}

fn project(cloud: &Matrix, direction: &[f64]) -> Vec<f64> {
    (0..cloud.rows()).map(|i| dot(cloud.row(i), direction)).collect()
}

/// W2^2 of two sets of numbers: the squared difference of their quantile functions.
fn on_a_line(mut x: Vec<f64>, mut y: Vec<f64>) -> f64 {
    x.sort_by(f64::total_cmp);
    y.sort_by(f64::total_cmp);
    let (n, m) = (x.len(), y.len());
    // Quantiles jump at i/n and at j/m; walk over both in units of 1/(nm).
    let (mut i, mut j, mut at, mut total) = (0, 0, 0usize, 0.0);
    while i < n && j < m {
        let next = ((i + 1) * m).min((j + 1) * n);
        total += (next - at) as f64 * (x[i] - y[j]).powi(2);
        at = next;
        i += usize::from((i + 1) * m == next);
        j += usize::from((j + 1) * n == next);
    }
    total / (n * m) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clouds_of_different_size_are_compared_by_their_quantiles() {
        assert_eq!(on_a_line(vec![0.0, 1.0], vec![0.0, 0.0, 1.0, 1.0]), 0.0);
        assert!((on_a_line(vec![0.0], vec![1.0, 2.0, 3.0]) - 14.0 / 3.0).abs() < 1e-15);
        assert!((on_a_line(vec![0.0, 1.0], vec![0.0, 0.5, 1.0]) - 0.25 / 3.0).abs() < 1e-15);
    }

    #[test]
    fn a_shift_has_its_own_squared_length_within_the_stated_error() {
        let mut stream = Stream::new(3, "sliced");
        let x = Matrix::from_fn(50, 20, |_, _| stream.normal());
        let y = Matrix::from_fn(50, 20, |i, j| x[(i, j)] + 0.5);
        let found = sliced(&x, &y, 2000, 1).unwrap();
        assert!((found.value - 5.0).abs() < 4.0 * found.error, "{found:?}");
        assert_eq!(sliced(&x, &x, 10, 1).unwrap().value, 0.0);
    }
}
