//! Matrix multiplication: packed panels and a register tile that the compiler vectorises.

use super::Matrix;
use rayon::prelude::*;

/// Rows and columns of the register tile.
const TILE_ROWS: usize = 4;
const TILE_COLS: usize = 4;
/// Depth of one packed block: a tile's two panels stay in the first-level cache.
const DEPTH: usize = 256;
/// Rows of the output given to one thread at a time.
const BAND: usize = 64;
/// Below this many multiplications threads cost more than they bring.
const PARALLEL_FROM: usize = 1 << 18;

/// A matrix seen through strides, so that a transpose needs no copy.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub data: &'a [f64],
    pub rows: usize,
    pub cols: usize,
    pub row_stride: usize,
    pub col_stride: usize,
}

impl<'a> View<'a> {
    pub fn of(matrix: &'a Matrix) -> Self {
        Self::new(matrix.values(), matrix.rows(), matrix.cols())
    }

    pub fn new(data: &'a [f64], rows: usize, cols: usize) -> Self {
        View { data, rows, cols, row_stride: cols, col_stride: 1 }
    }

    pub fn transposed(self) -> Self {
        View { rows: self.cols, cols: self.rows, row_stride: self.col_stride, col_stride: self.row_stride, ..self }
    }

    fn at(&self, i: usize, j: usize) -> f64 {
        self.data[i * self.row_stride + j * self.col_stride]
    }
}

/// Adds `a * b` to the row-major `out`.
pub(crate) fn multiply_into(a: View<'_>, b: View<'_>, out: &mut [f64], parallel: bool) {
    assert_eq!(a.cols, b.rows, "inner sizes of a product differ");
    assert_eq!(out.len(), a.rows * b.cols, "output of a product has the wrong size");
    if out.is_empty() || a.cols == 0 {
        return;
    }
    let parallel = parallel && a.rows * a.cols * b.cols >= PARALLEL_FROM;
    let mut packed = Vec::new();
    for start in (0..a.cols).step_by(DEPTH) {
        let depth = DEPTH.min(a.cols - start);
        pack_columns(b, start, depth, &mut packed);
        let band = |(index, rows): (usize, &mut [f64])| {
            multiply_band(a, index * BAND, start, depth, &packed, b.cols, rows);
        };
        if parallel {
            out.par_chunks_mut(BAND * b.cols).enumerate().for_each(band);
        } else {
            out.chunks_mut(BAND * b.cols).enumerate().for_each(band);
        }
    }
}

/// Columns of `b` in groups of `TILE_COLS`, each group depth by depth, padded with zeros.
fn pack_columns(b: View<'_>, start: usize, depth: usize, packed: &mut Vec<f64>) {
    packed.clear();
    packed.reserve(b.cols.next_multiple_of(TILE_COLS) * depth);
    for j in (0..b.cols).step_by(TILE_COLS) {
        for k in start..start + depth {
            for col in j..j + TILE_COLS {
                packed.push(if col < b.cols { b.at(k, col) } else { 0.0 });
            }
        }
    }
}

fn multiply_band(a: View<'_>, first: usize, start: usize, depth: usize, packed: &[f64], cols: usize, out: &mut [f64]) {
    let rows = out.len() / cols;
    let mut left = vec![0.0; depth * TILE_ROWS];
    for i in (0..rows).step_by(TILE_ROWS) {
        let height = TILE_ROWS.min(rows - i);
        for (k, slot) in left.as_chunks_mut::<TILE_ROWS>().0.iter_mut().enumerate() {
            for (r, value) in slot.iter_mut().enumerate() {
                *value = if r < height { a.at(first + i + r, start + k) } else { 0.0 };
            }
        }
        for (panel, right) in packed.chunks_exact(depth * TILE_COLS).enumerate() {
            let tile = multiply_tile(&left, right);
            let j = panel * TILE_COLS;
            let width = TILE_COLS.min(cols - j);
            for (r, sums) in tile.iter().enumerate().take(height) {
                let row = &mut out[(i + r) * cols + j..][..width];
                for (o, s) in row.iter_mut().zip(sums) {
                    *o += s;
                }
            }
        }
    }
}

#[inline]
fn multiply_tile(left: &[f64], right: &[f64]) -> [[f64; TILE_COLS]; TILE_ROWS] {
    let mut sums = [[0.0; TILE_COLS]; TILE_ROWS];
    let (left, _) = left.as_chunks::<TILE_ROWS>();
    let (right, _) = right.as_chunks::<TILE_COLS>();
    for (a, b) in left.iter().zip(right) {
        for r in 0..TILE_ROWS {
            for c in 0..TILE_COLS {
                sums[r][c] += a[r] * b[c];
            }
        }
    }
    sums
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
        multiply_into(View::of(&a), View::of(&b), &mut alone, false);
        assert_eq!(a.times(&b).values(), alone);
    }
}
