//! Matrix products on one thread, from packed panels; callers decide what runs in parallel.
#![allow(unsafe_code)]

use super::tile::ROWS;
use crate::Scalar;

/// A matrix in memory: element (i, j) at `i * rows + j * cols`.
#[derive(Clone, Copy)]
pub struct MatrixView<'a, T> {
    data: &'a [T],
    row_stride: usize,
    col_stride: usize,
}

impl<'a, T: Scalar> MatrixView<'a, T> {
    /// Row-major with `width` columns.
    pub fn rows(data: &'a [T], width: usize) -> Self {
        MatrixView { data, row_stride: width, col_stride: 1 }
    }

    /// Element (i, j) at `i * row_stride + j * col_stride`.
    pub fn strided(data: &'a [T], row_stride: usize, col_stride: usize) -> Self {
        MatrixView { data, row_stride, col_stride }
    }

    /// From element (i, j) on.
    pub fn from(self, i: usize, j: usize) -> Self {
        MatrixView { data: &self.data[i * self.row_stride + j * self.col_stride..], ..self }
    }

    /// The transpose.
    pub fn transposed(self) -> Self {
        MatrixView { data: self.data, row_stride: self.col_stride, col_stride: self.row_stride }
    }

    /// Either the matrix or its transpose.
    pub fn transposed_if(self, transpose: bool) -> Self {
        if transpose { self.transposed() } else { self }
    }
}

/// The right operand of a product: panels of `NR` columns, each `depth` rows of `NR`, padded with zeros.
pub struct Panels<T> {
    data: Vec<T>,
    depth: usize,
    columns: usize,
}

/// Packs the `depth` x `columns` matrix `b`.
pub fn pack<T: Scalar>(b: MatrixView<T>, depth: usize, columns: usize) -> Panels<T> {
    let mut data = vec![T::ZERO; columns.div_ceil(T::NR) * depth * T::NR];
    for (panel, chunk) in data.chunks_exact_mut(depth * T::NR).enumerate() {
        let first = panel * T::NR;
        let width = T::NR.min(columns - first);
        if b.col_stride == 1 {
            for (k, row) in chunk.chunks_exact_mut(T::NR).enumerate() {
                let from = k * b.row_stride + first;
                row[..width].copy_from_slice(&b.data[from..from + width]);
            }
        } else {
            for j in 0..width {
                let column = &b.data[(first + j) * b.col_stride..];
                for k in 0..depth {
                    chunk[k * T::NR + j] = column[k * b.row_stride];
                }
            }
        }
    }
    Panels { data, depth, columns }
}

/// `out = alpha * a b`, where `a` is `m` x `depth` and `out` row-major `m` x `columns`.
pub fn multiply<T: Scalar>(alpha: T, a: MatrixView<T>, m: usize, b: &Panels<T>, out: &mut [T]) {
    multiply_into(alpha, a, m, b, out, b.columns);
}

/// As [`multiply`], where the rows of `out` begin `pitch` elements apart.
pub fn multiply_into<T: Scalar>(alpha: T, a: MatrixView<T>, m: usize, b: &Panels<T>, out: &mut [T], pitch: usize) {
    each_product(a, m, b, out, pitch, |out, value| *out = alpha * value);
}

/// `out += a b`.
pub fn multiply_add<T: Scalar>(a: MatrixView<T>, m: usize, b: &Panels<T>, out: &mut [T]) {
    each_product(a, m, b, out, b.columns, |out, value| *out += value);
}

/// Hands each element of `out` and of `a b` to `store`.
#[inline(always)]
fn each_product<T: Scalar>(
    a: MatrixView<T>,
    m: usize,
    b: &Panels<T>,
    out: &mut [T],
    pitch: usize,
    store: impl Fn(&mut T, T),
) {
    let (depth, n) = (b.depth, b.columns);
    assert!(m > 0 && pitch >= n && out.len() >= (m - 1) * pitch + n);
    assert!(a.data.len() > (m - 1) * a.row_stride + (depth - 1) * a.col_stride);
    // The tile wants rows with consecutive values.
    let packed: Vec<T>;
    let (data, stride) = if a.col_stride == 1 {
        (a.data, a.row_stride)
    } else {
        packed = transpose(a, m, depth);
        (packed.as_slice(), depth)
    };
    let mut tile = [T::ZERO; ROWS * 32];
    let tile = &mut tile[..ROWS * T::NR];
    for first in (0..m).step_by(ROWS) {
        let height = ROWS.min(m - first);
        // Rows past the end repeat the last one; their results are not stored.
        let rows: [*const T; ROWS] = std::array::from_fn(|i| data[(first + i.min(height - 1)) * stride..].as_ptr());
        for (panel, values) in b.data.chunks_exact(depth * T::NR).enumerate() {
            // SAFETY: each row has `depth` values (asserted above), the panel `depth * NR`, the tile `8 * NR`.
            unsafe { T::rows_times_panel(1, depth, rows.as_ptr(), values.as_ptr(), tile.as_mut_ptr()) };
            let column = panel * T::NR;
            let width = T::NR.min(n - column);
            for i in 0..height {
                let to = (first + i) * pitch + column;
                for (out, &value) in out[to..to + width].iter_mut().zip(&tile[i * T::NR..]) {
                    store(out, value);
                }
            }
        }
    }
}

/// The `m` x `depth` matrix `a` in row-major order, copied in square blocks that stay in the cache.
fn transpose<T: Scalar>(a: MatrixView<T>, m: usize, depth: usize) -> Vec<T> {
    const BLOCK: usize = 16;
    let mut out = vec![T::ZERO; m * depth];
    for first in (0..m).step_by(BLOCK) {
        for k in 0..depth {
            for i in first..(first + BLOCK).min(m) {
                out[i * depth + k] = a.data[i * a.row_stride + k * a.col_stride];
            }
        }
    }
    out
}

/// `dot(a, b)` with 16 running sums.
#[inline(always)]
pub fn dot<T: Scalar>(a: &[T], b: &[T]) -> T {
    let mut sums = [T::ZERO; 16];
    let (a16, a_rest) = a.as_chunks::<16>();
    let (b16, b_rest) = b.as_chunks::<16>();
    for (a, b) in a16.iter().zip(b16) {
        for i in 0..16 {
            sums[i] += a[i] * b[i];
        }
    }
    let rest: T = a_rest.iter().zip(b_rest).map(|(&a, &b)| a * b).sum();
    sums.iter().copied().sum::<T>() + rest
}
