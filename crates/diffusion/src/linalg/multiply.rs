//! Matrix multiplication, by the engine.

use super::Matrix;
use softdiff_engine::cpu::product;

/// A matrix seen through strides, so that a transpose needs no copy.
#[derive(Clone, Copy)]
pub(crate) struct Strided<'a> {
    pub data: &'a [f64],
    pub rows: usize,
    pub cols: usize,
    pub row_stride: usize,
    pub col_stride: usize,
}

impl<'a> Strided<'a> {
    pub fn of(matrix: &'a Matrix) -> Self {
        Self::new(matrix.values(), matrix.rows(), matrix.cols())
    }

    pub fn new(data: &'a [f64], rows: usize, cols: usize) -> Self {
        Strided { data, rows, cols, row_stride: cols, col_stride: 1 }
    }

    pub fn transposed(self) -> Self {
        Strided { rows: self.cols, cols: self.rows, row_stride: self.col_stride, col_stride: self.row_stride, ..self }
    }
}

/// Adds `a * b` to the row-major `out`.
pub(crate) fn multiply_into(a: Strided<'_>, b: Strided<'_>, out: &mut [f64], parallel: bool) {
    assert_eq!(a.cols, b.rows, "inner sizes of a product differ");
    let [left, right] = [a, b].map(|v| product::MatrixView::strided(v.data, v.row_stride, v.col_stride));
    product::add_product(left, right, [a.rows, a.cols, b.cols], out, parallel);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rows: usize, cols: usize, seed: usize) -> Matrix {
        Matrix::from_fn(rows, cols, |i, j| ((i * 31 + j * 17 + seed * 7) % 23) as f64 - 11.0)
    }

    #[test]
    fn products_of_every_shape_equal_the_triple_loop() {
        for (m, k, n) in [(1, 1, 1), (3, 5, 2), (4, 4, 4), (65, 300, 9), (70, 7, 67), (5, 520, 3)] {
            let (a, b) = (sample(m, k, 1), sample(k, n, 2));
            let slow = Matrix::from_fn(m, n, |i, j| (0..k).map(|l| a[(i, l)] * b[(l, j)]).sum());
            // Small integers: every sum is exact, whatever the order.
            assert_eq!(a.times(&b), slow);
            assert_eq!(a.transposed().transposed_times(&b), slow);
            assert_eq!(a.times_transposed(&b.transposed()), slow);
        }
    }

    #[test]
    fn a_product_is_the_same_on_one_thread_and_on_many() {
        let a = Matrix::from_fn(200, 130, |i, j| ((i * j) as f64).sin());
        let b = Matrix::from_fn(130, 190, |i, j| ((i + 3 * j) as f64).cos());
        let mut alone = vec![0.0; 200 * 190];
        multiply_into(Strided::of(&a), Strided::of(&b), &mut alone, false);
        assert_eq!(a.times(&b).values(), alone);
    }
}
