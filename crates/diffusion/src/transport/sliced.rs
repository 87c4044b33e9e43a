//! Sliced Wasserstein distance: the mean over directions of one-dimensional transport, which is sorting.

use super::{Estimate, TransportError, check_clouds};
use crate::linalg::{Matrix, dot, norm};
use rayon::prelude::*;
use softdiff_engine::pixels::{PixelValue, to_unit};
use softdiff_engine::rng::RandomStream;

/// Directions that points are projected on at a time.
const TOGETHER: usize = 64;

/// E over unit directions of W2^2 of the projections, times the dimension so that it compares with W2^2 (equal for a
/// shift). Error: the standard error over the directions drawn.
pub fn sliced(x: &Matrix, y: &Matrix, directions: usize, seed: u64) -> Result<Estimate, TransportError> {
    check_clouds(x, y)?;
    sliced_images(x.values(), y.values(), x.cols(), directions, seed)
}

/// [`sliced`] of points of `size` coordinates as they are stored; one point per thread is there as f64.
pub fn sliced_images<V: PixelValue>(
    x: &[V],
    y: &[V],
    size: usize,
    directions: usize,
    seed: u64,
) -> Result<Estimate, TransportError> {
    for cloud in [x, y] {
        if cloud.len() < size || size == 0 {
            return Err(TransportError::Empty { points: cloud.len() / size.max(1), dimensions: size });
        }
    }
    if directions == 0 {
        let remedy = "give at least one direction; some hundreds are usual";
        return Err(TransportError::Option { option: "the number of directions", value: 0.0, remedy });
    }
    let mut values = Vec::with_capacity(directions);
    for first in (0..directions).step_by(TOGETHER) {
        let draws = first..directions.min(first + TOGETHER);
        let drawn: Vec<Vec<f64>> = draws
            .into_par_iter()
            .map(|draw| {
                let mut direction = RandomStream::numbered(seed, "sliced direction", draw).normals(size);
                let scale = (size as f64).sqrt() / norm(&direction);
                direction.iter_mut().for_each(|v| *v *= scale);
                direction
            })
            .collect();
        let (x, y) = (project(x, &drawn), project(y, &drawn));
        let along = |of: &[f64], k: usize| of.iter().skip(k).step_by(drawn.len()).copied().collect();
        values.par_extend((0..drawn.len()).into_par_iter().map(|k| on_a_line(along(&x, k), along(&y, k))));
    }
    let count = directions as f64;
    let value = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|v| (v - value).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    Ok(Estimate { value, converged: true, iterations: directions, error: (variance / count).sqrt() })
}

/// Point by point, its coordinate along each direction.
fn project<V: PixelValue>(cloud: &[V], directions: &[Vec<f64>]) -> Vec<f64> {
    let size = directions.first().map_or(1, Vec::len);
    let mut projected = vec![0.0; cloud.len() / size * directions.len()];
    projected.par_chunks_exact_mut(directions.len()).zip(cloud.par_chunks_exact(size)).for_each(|(out, point)| {
        let point = to_unit(point);
        out.iter_mut().zip(directions).for_each(|(out, direction)| *out = dot(&point, direction));
    });
    projected
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
        let mut stream = RandomStream::new(3, "sliced");
        let x = Matrix::from_fn(50, 20, |_, _| stream.normal());
        let y = Matrix::from_fn(50, 20, |i, j| x[(i, j)] + 0.5);
        let found = sliced(&x, &y, 2000, 1).unwrap();
        assert!((found.value - 5.0).abs() < 4.0 * found.error, "{found:?}");
        assert_eq!(sliced(&x, &x, 10, 1).unwrap().value, 0.0);
    }
}
