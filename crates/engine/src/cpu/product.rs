//! Inner products between the rows of two matrices, on all cores: distances, kernels and covariances are made of them.

use super::gemm::{View, multiply, pack};
use crate::Scalar;
use rayon::prelude::*;

/// Rows of the output that one task computes.
const BAND: usize = 64;

/// `out[i][j] = <a_i, b_j>` for row-major `a` and `b` with `depth` columns; `out` has one row for each row of `a`.
///
/// The result does not depend on the number of threads.
///
/// # Panics
/// If the slices do not fill these shapes: a mistake of the caller.
pub fn inner_products<T: Scalar>(a: &[T], b: &[T], depth: usize, out: &mut [T]) {
    assert!(depth > 0 && a.len().is_multiple_of(depth) && b.len().is_multiple_of(depth), "rows of unequal length");
    let (rows, columns) = (a.len() / depth, b.len() / depth);
    assert_eq!(out.len(), rows * columns, "one output for each pair of rows");
    if out.is_empty() {
        return;
    }
    let panels = pack(View::rows(b, depth).transposed(), depth, columns);
    out.par_chunks_mut(BAND * columns).zip(a.par_chunks(BAND * depth)).for_each(|(out, a)| {
        multiply(T::ONE, View::rows(a, depth), a.len() / depth, &panels, out);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_rows_equal_the_double_loop() {
        for (rows, columns, depth) in [(1, 1, 1), (3, 70, 5), (130, 33, 64)] {
            let value = |i: usize| ((i * 37) % 19) as f64 - 9.0;
            let a: Vec<f64> = (0..rows * depth).map(value).collect();
            let b: Vec<f64> = (0..columns * depth).map(|i| value(i + 5)).collect();
            let mut out = vec![0.0; rows * columns];
            inner_products(&a, &b, depth, &mut out);
            for (i, a) in a.chunks(depth).enumerate() {
                for (j, b) in b.chunks(depth).enumerate() {
                    // Small whole numbers: every sum is exact.
                    assert_eq!(out[i * columns + j], a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>());
                }
            }
        }
    }
}
