//! Squared distances between all pairs of rows, a band at a time, so that memory stays bounded.

use rayon::prelude::*;
use softdiff_engine::cpu::product::inner_products;

/// Rows of the left set whose distances are in memory at a time.
const BAND: usize = 256;

/// Calls `each(first, rows)` with bands of squared distances from the rows of `x`, beginning with row `first`, to all rows
/// of `y`. In f64, as `|x|^2 + |y|^2 - 2 x.y`, never below zero.
pub fn each_band(x: &[f32], y: &[f32], dimensions: usize, mut each: impl FnMut(usize, &mut [f64])) {
    let wide = |set: &[f32]| -> Vec<f64> { set.par_iter().map(|&v| f64::from(v)).collect() };
    let norms = |set: &[f64]| -> Vec<f64> {
        set.par_chunks_exact(dimensions).map(|row| row.iter().map(|v| v * v).sum()).collect()
    };
    let y = wide(y);
    let y_norms = norms(&y);
    let mut distances = Vec::new();
    for (band, x) in x.chunks(BAND * dimensions).enumerate() {
        let x = wide(x);
        let x_norms = norms(&x);
        distances.resize(x_norms.len() * y_norms.len(), 0.0);
        inner_products(&x, &y, dimensions, &mut distances);
        distances.par_chunks_exact_mut(y_norms.len()).zip(&x_norms).for_each(|(row, xx)| {
            row.iter_mut().zip(&y_norms).for_each(|(d, yy)| *d = (xx + yy - 2.0 * *d).max(0.0));
        });
        each(band * BAND, &mut distances);
    }
}

/// The squared distance of every row to its k-th nearest other row.
pub fn radii(x: &[f32], dimensions: usize, k: usize) -> Vec<f64> {
    let rows = x.len() / dimensions;
    let mut radii = Vec::with_capacity(rows);
    each_band(x, x, dimensions, |first, band| {
        let one = |(row, distances): (usize, &mut [f64])| {
            distances[first + row] = f64::INFINITY;
            *distances.select_nth_unstable_by(k - 1, f64::total_cmp).1
        };
        radii.par_extend(band.par_chunks_exact_mut(rows).enumerate().map(one));
    });
    radii
}
