//! A dense row-major matrix.

use super::LinalgError;
use super::multiply::{Strided, multiply_into};
use faer::MatRef;
use std::ops::{Index, IndexMut};

/// A dense matrix of f64, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    data: Vec<f64>,
}

impl Matrix {
    /// All zeros.
    pub fn zeros(rows: usize, cols: usize) -> Self {
        Matrix { rows, cols, data: vec![0.0; rows * cols] }
    }

    /// Ones on the diagonal.
    pub fn identity(n: usize) -> Self {
        Self::from_fn(n, n, |i, j| if i == j { 1.0 } else { 0.0 })
    }

    /// `values` on the diagonal, zeros elsewhere.
    pub fn diagonal(values: &[f64]) -> Self {
        let n = values.len();
        Self::from_fn(n, n, |i, j| if i == j { values[i] } else { 0.0 })
    }

    /// Entry (i, j) is `entry(i, j)`.
    pub fn from_fn(rows: usize, cols: usize, mut entry: impl FnMut(usize, usize) -> f64) -> Self {
        let mut data = Vec::with_capacity(rows * cols);
        for i in 0..rows {
            for j in 0..cols {
                data.push(entry(i, j));
            }
        }
        Matrix { rows, cols, data }
    }

    /// Takes row-major values that must fill the shape.
    pub fn from_vec(rows: usize, cols: usize, data: Vec<f64>) -> Result<Self, LinalgError> {
        if rows.checked_mul(cols) != Some(data.len()) {
            return Err(LinalgError::Shape { rows, cols, found: data.len() });
        }
        Ok(Matrix { rows, cols, data })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Row `i` as a slice.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.data[i * self.cols..(i + 1) * self.cols]
    }

    /// Row `i`, to write.
    pub fn row_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.data[i * self.cols..(i + 1) * self.cols]
    }

    /// All values, row by row.
    pub fn values(&self) -> &[f64] {
        &self.data
    }

    /// As faer sees it.
    pub(super) fn view(&self) -> MatRef<'_, f64> {
        MatRef::from_row_major_slice(&self.data, self.rows, self.cols)
    }

    /// All values, row by row, to write.
    pub fn values_mut(&mut self) -> &mut [f64] {
        &mut self.data
    }

    /// The values, given up.
    pub fn into_values(self) -> Vec<f64> {
        self.data
    }

    /// The diagonal.
    pub fn diagonal_values(&self) -> Vec<f64> {
        (0..self.rows.min(self.cols)).map(|i| self[(i, i)]).collect()
    }

    /// The transpose, copied.
    pub fn transposed(&self) -> Self {
        Self::from_fn(self.cols, self.rows, |i, j| self[(j, i)])
    }

    /// `self * other`. The inner sizes must agree.
    pub fn times(&self, other: &Matrix) -> Matrix {
        self.product(Strided::of(self), Strided::of(other))
    }

    /// `self * other^T`.
    pub fn times_transposed(&self, other: &Matrix) -> Matrix {
        self.product(Strided::of(self), Strided::of(other).transposed())
    }

    /// `self^T * other`.
    pub fn transposed_times(&self, other: &Matrix) -> Matrix {
        self.product(Strided::of(self).transposed(), Strided::of(other))
    }

    fn product(&self, a: Strided<'_>, b: Strided<'_>) -> Matrix {
        let mut out = Matrix::zeros(a.rows, b.cols);
        multiply_into(a, b, &mut out.data, true);
        out
    }

    /// `self * x`.
    pub fn times_vector(&self, x: &[f64]) -> Vec<f64> {
        assert_eq!(self.cols, x.len(), "matrix-vector sizes differ");
        (0..self.rows).map(|i| dot(self.row(i), x)).collect()
    }

    /// `self^T * x`.
    pub fn transposed_times_vector(&self, x: &[f64]) -> Vec<f64> {
        assert_eq!(self.rows, x.len(), "matrix-vector sizes differ");
        let mut out = vec![0.0; self.cols];
        for (i, &xi) in x.iter().enumerate() {
            for (o, &a) in out.iter_mut().zip(self.row(i)) {
                *o += a * xi;
            }
        }
        out
    }

    /// `a * self + b * other`, entry by entry.
    pub fn combined(&self, a: f64, other: &Matrix, b: f64) -> Matrix {
        assert_eq!((self.rows, self.cols), (other.rows, other.cols), "shapes differ");
        let data = self.data.iter().zip(&other.data).map(|(x, y)| a * x + b * y).collect();
        Matrix { rows: self.rows, cols: self.cols, data }
    }

    /// The largest absolute difference of entries.
    pub fn largest_difference(&self, other: &Matrix) -> f64 {
        assert_eq!((self.rows, self.cols), (other.rows, other.cols), "shapes differ");
        self.data.iter().zip(&other.data).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
    }

    /// The mean of the rows.
    pub fn row_mean(&self) -> Vec<f64> {
        let mut mean = vec![0.0; self.cols];
        for i in 0..self.rows {
            for (m, x) in mean.iter_mut().zip(self.row(i)) {
                *m += x;
            }
        }
        let scale = 1.0 / self.rows.max(1) as f64;
        mean.iter_mut().for_each(|m| *m *= scale);
        mean
    }

    /// The rows less `centre`.
    pub fn centred(&self, centre: &[f64]) -> Matrix {
        Self::from_fn(self.rows, self.cols, |i, j| self[(i, j)] - centre[j])
    }

    /// The first entry that is NaN or infinite, as an error.
    pub fn check_finite(&self) -> Result<(), LinalgError> {
        match self.data.iter().position(|v| !v.is_finite()) {
            None => Ok(()),
            Some(at) => Err(LinalgError::NotFinite { row: at / self.cols, col: at % self.cols, value: self.data[at] }),
        }
    }
}

impl Index<(usize, usize)> for Matrix {
    type Output = f64;
    fn index(&self, (i, j): (usize, usize)) -> &f64 {
        &self.data[i * self.cols + j]
    }
}

impl IndexMut<(usize, usize)> for Matrix {
    fn index_mut(&mut self, (i, j): (usize, usize)) -> &mut f64 {
        &mut self.data[i * self.cols + j]
    }
}

/// Inner product, summed in eight lanes so that the compiler can vectorise it.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 8;
    let mut lanes = [0.0; LANES];
    let (a_blocks, a_rest) = a.as_chunks::<LANES>();
    let (b_blocks, b_rest) = b.as_chunks::<LANES>();
    for (x, y) in a_blocks.iter().zip(b_blocks) {
        for l in 0..LANES {
            lanes[l] += x[l] * y[l];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    lanes.iter().sum::<f64>() + rest
}

/// Sum of squared differences, in eight lanes.
pub fn squared_distance(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 8;
    let mut lanes = [0.0; LANES];
    let (a_blocks, a_rest) = a.as_chunks::<LANES>();
    let (b_blocks, b_rest) = b.as_chunks::<LANES>();
    for (x, y) in a_blocks.iter().zip(b_blocks) {
        for l in 0..LANES {
            let d = x[l] - y[l];
            lanes[l] += d * d;
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(x, y)| (x - y) * (x - y)).sum();
    lanes.iter().sum::<f64>() + rest
}

/// Euclidean norm.
pub fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}
