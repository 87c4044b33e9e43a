//! Squared Euclidean distances between all points of two clouds.

use super::{TransportError, check_clouds};
use crate::linalg::{Matrix, squared_distance};
use rayon::prelude::*;

/// Points compared with one point at a time.
const TILE: usize = 4;
/// Points kept in the second-level cache while rows pass by, in values.
const BLOCK_VALUES: usize = 48 * 1024;
const LANES: usize = 4;

/// Entry (i, j) is |x_i - y_j|^2, from differences.
///
/// |x|^2 + |y|^2 - 2xy would be a matrix product, but loses all digits where clouds nearly coincide, as neighbouring
/// corruption levels do.
pub fn squared_distances(x: &Matrix, y: &Matrix) -> Result<Matrix, TransportError> {
    check_clouds(x, y)?;
    let mut cost = Matrix::zeros(x.rows(), y.rows());
    let block = (BLOCK_VALUES / x.cols()).max(TILE);
    let band = 8;
    cost.values_mut().par_chunks_mut(band * y.rows()).enumerate().for_each(|(index, rows)| {
        for start in (0..y.rows()).step_by(block) {
            let end = (start + block).min(y.rows());
            for (offset, row) in rows.chunks_exact_mut(y.rows()).enumerate() {
                fill(x.row(index * band + offset), y, start, &mut row[start..end]);
            }
        }
    });
    Ok(cost)
}

/// Distances from one point to the points of `y` from `start` on.
fn fill(x: &[f64], y: &Matrix, start: usize, out: &mut [f64]) {
    let (tiles, rest) = out.as_chunks_mut::<TILE>();
    let whole = tiles.len() * TILE;
    for (index, tile) in tiles.iter_mut().enumerate() {
        *tile = distances_to_four(x, std::array::from_fn(|k| y.row(start + index * TILE + k)));
    }
    for (index, value) in rest.iter_mut().enumerate() {
        *value = squared_distance(x, y.row(start + whole + index));
    }
}

fn distances_to_four(x: &[f64], y: [&[f64]; TILE]) -> [f64; TILE] {
    let mut sums = [[0.0; LANES]; TILE];
    let (blocks, rest) = x.as_chunks::<LANES>();
    let ys = y.map(|y| y.as_chunks::<LANES>());
    for (index, block) in blocks.iter().enumerate() {
        for k in 0..TILE {
            let other = &ys[k].0[index];
            for l in 0..LANES {
                let d = block[l] - other[l];
                sums[k][l] += d * d;
            }
        }
    }
    std::array::from_fn(|k| {
        let tail: f64 = rest.iter().zip(ys[k].1).map(|(a, b)| (a - b) * (a - b)).sum();
        sums[k].iter().sum::<f64>() + tail
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff_engine::rng::RandomStream;

    #[test]
    fn distances_equal_the_plain_sum_for_odd_sizes() {
        let mut stream = RandomStream::new(1, "cost");
        for (n, m, d) in [(1, 1, 1), (9, 7, 5), (17, 30, 33)] {
            let x = Matrix::from_fn(n, d, |_, _| stream.normal());
            let y = Matrix::from_fn(m, d, |_, _| stream.normal());
            let cost = squared_distances(&x, &y).unwrap();
            for i in 0..n {
                for j in 0..m {
                    let plain: f64 = x.row(i).iter().zip(y.row(j)).map(|(a, b)| (a - b).powi(2)).sum();
                    assert!((cost[(i, j)] - plain).abs() < 1e-13 * plain);
                }
            }
        }
    }

    #[test]
    fn clouds_that_cannot_be_compared_are_typed_errors() {
        let good = Matrix::zeros(2, 3);
        let error = |x: &Matrix, y: &Matrix| squared_distances(x, y).unwrap_err();
        assert!(matches!(error(&Matrix::zeros(0, 3), &good), TransportError::Empty { .. }));
        assert!(matches!(error(&Matrix::zeros(2, 4), &good), TransportError::Dimensions { left: 4, right: 3 }));
        let mut bad = good.clone();
        bad[(1, 2)] = f64::NAN;
        assert!(matches!(error(&good, &bad), TransportError::NotFinite { point: 1, coordinate: 2, .. }));
    }
}
