//! Matrix products on all cores: distances, kernels and covariances are made of them.

pub use super::gemm::MatrixView;
use super::gemm::{multiply, multiply_add, pack};
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
    let panels = pack(MatrixView::rows(b, depth).transposed(), depth, columns);
    out.par_chunks_mut(BAND * columns).zip(a.par_chunks(BAND * depth)).for_each(|(out, a)| {
        multiply(T::ONE, MatrixView::rows(a, depth), a.len() / depth, &panels, out);
    });
}

/// Depth of the parts of a product that are added up: two panels and eight rows stay in the first-level cache.
const DEPTH: usize = 256;
/// Below this many multiplications threads cost more than they bring.
const PARALLEL_FROM: usize = 1 << 18;

/// Adds `a b` to the row-major `out`, for `a` of `rows` x `depth` and `b` of `depth` x `columns`.
///
/// The result does not depend on the number of threads.
///
/// # Panics
/// If a slice is too short for its shape: a mistake of the caller.
pub fn add_product<T: Scalar>(
    a: MatrixView<T>,
    b: MatrixView<T>,
    [rows, depth, columns]: [usize; 3],
    out: &mut [T],
    parallel: bool,
) {
    assert_eq!(out.len(), rows * columns, "one output for each row and column");
    if out.is_empty() {
        return;
    }
    for start in (0..depth).step_by(DEPTH) {
        let part = DEPTH.min(depth - start);
        let panels = pack(b.from(start, 0), part, columns);
        let band = |(index, out): (usize, &mut [T])| {
            multiply_add(a.from(index * BAND, start), out.len() / columns, &panels, out);
        };
        if parallel && rows * depth * columns >= PARALLEL_FROM {
            out.par_chunks_mut(BAND * columns).enumerate().for_each(band);
        } else {
            out.chunks_mut(BAND * columns).enumerate().for_each(band);
        }
    }
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
