//! Linear maps on images as small programs of primitive maps, each with an adjoint.

use super::separable::{image_from_planes, multiply_planes, planes_from_image};
use super::{CorruptionError, Shape, SharedOperator};
use crate::linalg::Matrix;
use rayon::prelude::*;
use std::sync::Arc;

/// A linear map on images of one [`Shape`].
#[derive(Debug, Clone, PartialEq)]
pub enum LinearMap {
    /// `x -> x`.
    Identity,
    /// `x -> a x`.
    Scale(f64),
    /// `X -> rows X cols^T` for every channel.
    Separable {
        /// Acts on columns of pixels: height x height.
        rows: Matrix,
        /// Acts on rows of pixels: width x width.
        cols: Matrix,
    },
    /// `X -> B^T (gains * (B X D^T)) D` for every channel: a diagonal map in an orthonormal product basis.
    Spectral {
        /// Row k is basis function k along the height (B).
        rows: Matrix,
        /// Row k is basis function k along the width (D).
        cols: Matrix,
        /// One gain per pair of basis functions, row by row.
        gains: Vec<f64>,
    },
    /// Every pixel times its own weight, the same for all its channels.
    PixelDiagonal(Vec<f64>),
    /// Every pixel's channels times one matrix.
    ChannelMix(Matrix),
    /// Any matrix on the flattened image.
    Dense(Matrix),
    /// Applied one after the other, the first one first.
    Compose(Vec<LinearMap>),
    /// Applied side by side and added; what derivatives of products need.
    Sum(Vec<LinearMap>),
    /// A map that many maps have in common, such as those of one corruption at all of its levels. In the engine its numbers
    /// are constants instead of one row per time.
    Shared(SharedMap),
    /// Computed by code of its own, for images too large for matrices; the engine has no such map.
    Operator(SharedOperator),
}

/// A map that is not copied with those that contain it.
#[derive(Debug, Clone)]
pub struct SharedMap(Arc<LinearMap>);

impl SharedMap {
    /// Shares a map.
    pub fn new(map: LinearMap) -> Self {
        SharedMap(Arc::new(map))
    }

    /// The map.
    pub fn map(&self) -> &LinearMap {
        &self.0
    }
}

impl PartialEq for SharedMap {
    /// Mostly one and the same, and then the numbers need not be compared.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl LinearMap {
    /// The zero map.
    pub fn zero() -> Self {
        LinearMap::Scale(0.0)
    }

    /// The derivative of `Separable { rows, cols }` when both factors move.
    pub fn separable_derivative(rows: Matrix, cols: Matrix, rows_dot: Matrix, cols_dot: Matrix) -> Self {
        LinearMap::Sum(vec![
            LinearMap::Separable { rows: rows_dot, cols: cols.clone() },
            LinearMap::Separable { rows, cols: cols_dot },
        ])
    }

    /// The map times a number.
    pub fn scaled(self, factor: f64) -> Self {
        LinearMap::Compose(vec![self, LinearMap::Scale(factor)])
    }

    /// `C x` for one image.
    pub fn apply(&self, shape: Shape, x: &[f64]) -> Result<Vec<f64>, CorruptionError> {
        self.check_image(shape, x)?;
        Ok(self.run(shape, x, false))
    }

    /// `C^T x` for one image.
    pub fn adjoint(&self, shape: Shape, x: &[f64]) -> Result<Vec<f64>, CorruptionError> {
        self.check_image(shape, x)?;
        Ok(self.run(shape, x, true))
    }

    /// `C x` for every image of a batch, in parallel.
    pub fn apply_batch(&self, shape: Shape, batch: &[f64]) -> Result<Vec<f64>, CorruptionError> {
        shape.count(batch)?;
        self.check(shape)?;
        let mut out = vec![0.0; batch.len()];
        out.par_chunks_exact_mut(shape.len())
            .zip(batch.par_chunks_exact(shape.len()))
            .for_each(|(out, x)| out.copy_from_slice(&self.run(shape, x, false)));
        Ok(out)
    }

    /// True when every channel is treated alike and alone.
    pub fn treats_channels_alike(&self) -> bool {
        match self {
            LinearMap::ChannelMix(_) | LinearMap::Dense(_) => false,
            LinearMap::Compose(parts) | LinearMap::Sum(parts) => parts.iter().all(Self::treats_channels_alike),
            LinearMap::Shared(shared) => shared.map().treats_channels_alike(),
            _ => true,
        }
    }

    /// The matrix of the map on flattened images, from each primitive's own formula (not by applying it).
    pub fn to_dense(&self, shape: Shape) -> Result<Matrix, CorruptionError> {
        self.check(shape)?;
        Ok(self.dense(shape))
    }

    /// Refuses a map made for images of another size.
    pub fn check(&self, shape: Shape) -> Result<(), CorruptionError> {
        let square = |part, matrix: &Matrix, n: usize| {
            if (matrix.rows(), matrix.cols()) == (n, n) {
                return Ok(());
            }
            let found = format!("{}x{}", matrix.rows(), matrix.cols());
            Err(CorruptionError::MapSize { part, found, expected: format!("{n}x{n}"), shape })
        };
        let pixels = |part, values: &[f64]| {
            if values.len() == shape.pixels() {
                return Ok(());
            }
            let expected = shape.pixels().to_string();
            Err(CorruptionError::MapSize { part, found: values.len().to_string(), expected, shape })
        };
        match self {
            LinearMap::Identity | LinearMap::Scale(_) => Ok(()),
            LinearMap::Separable { rows, cols } => {
                square("row matrix", rows, shape.height)?;
                square("column matrix", cols, shape.width)
            }
            LinearMap::Spectral { rows, cols, gains } => {
                square("row basis", rows, shape.height)?;
                square("column basis", cols, shape.width)?;
                pixels("spectrum", gains)
            }
            LinearMap::PixelDiagonal(weights) => pixels("pixel mask", weights),
            LinearMap::ChannelMix(matrix) => square("channel matrix", matrix, shape.channels),
            LinearMap::Dense(matrix) => square("dense matrix", matrix, shape.len()),
            LinearMap::Compose(parts) | LinearMap::Sum(parts) => parts.iter().try_for_each(|part| part.check(shape)),
            LinearMap::Shared(shared) => shared.map().check(shape),
            LinearMap::Operator(operator) => {
                let own = operator.shape();
                if (own.height, own.width) == (shape.height, shape.width) {
                    return Ok(());
                }
                let (found, expected) =
                    (format!("{}x{}", own.height, own.width), format!("{}x{}", shape.height, shape.width));
                Err(CorruptionError::MapSize { part: operator.name(), found, expected, shape })
            }
        }
    }

    /// The gain of each frequency of the cosine basis, where the map is diagonal in it and says so.
    pub fn cosine_gains(&self, shape: Shape) -> Option<Vec<f64>> {
        match self {
            LinearMap::Identity => Some(vec![1.0; shape.pixels()]),
            LinearMap::Scale(a) => Some(vec![*a; shape.pixels()]),
            LinearMap::Operator(operator) => operator.cosine_gains(),
            LinearMap::Shared(shared) => shared.map().cosine_gains(shape),
            LinearMap::Compose(parts) => {
                let mut product = vec![1.0; shape.pixels()];
                for part in parts {
                    product.iter_mut().zip(part.cosine_gains(shape)?).for_each(|(product, gain)| *product *= gain);
                }
                Some(product)
            }
            _ => None,
        }
    }

    fn check_image(&self, shape: Shape, x: &[f64]) -> Result<(), CorruptionError> {
        if x.len() != shape.len() {
            return Err(CorruptionError::ImageSize { shape, found: x.len() });
        }
        self.check(shape)
    }

    /// The map, or its adjoint, on one image of the right size.
    fn run(&self, shape: Shape, x: &[f64], adjoint: bool) -> Vec<f64> {
        match self {
            LinearMap::Identity => x.to_vec(),
            LinearMap::Scale(a) => x.iter().map(|v| a * v).collect(),
            LinearMap::Separable { rows, cols } => {
                let planes = planes_from_image(shape, x);
                image_from_planes(shape, &multiply_planes(shape, rows, cols, &planes, adjoint))
            }
            LinearMap::Spectral { rows, cols, gains } => {
                let planes = planes_from_image(shape, x);
                let mut spectrum = multiply_planes(shape, rows, cols, &planes, false);
                for plane in spectrum.chunks_exact_mut(shape.pixels()) {
                    plane.iter_mut().zip(gains).for_each(|(value, gain)| *value *= gain);
                }
                image_from_planes(shape, &multiply_planes(shape, rows, cols, &spectrum, true))
            }
            LinearMap::PixelDiagonal(weights) => {
                let pixels = x.chunks_exact(shape.channels).zip(weights);
                pixels.flat_map(|(pixel, weight)| pixel.iter().map(move |v| v * weight)).collect()
            }
            LinearMap::ChannelMix(matrix) => {
                let mix = |pixel: &[f64]| {
                    if adjoint { matrix.transposed_times_vector(pixel) } else { matrix.times_vector(pixel) }
                };
                x.chunks_exact(shape.channels).flat_map(mix).collect()
            }
            LinearMap::Dense(matrix) if adjoint => matrix.transposed_times_vector(x),
            LinearMap::Dense(matrix) => matrix.times_vector(x),
            LinearMap::Compose(parts) if adjoint => {
                parts.iter().rev().fold(x.to_vec(), |x, part| part.run(shape, &x, true))
            }
            LinearMap::Compose(parts) => parts.iter().fold(x.to_vec(), |x, part| part.run(shape, &x, false)),
            LinearMap::Sum(parts) => {
                let mut total = vec![0.0; x.len()];
                for part in parts {
                    total.iter_mut().zip(part.run(shape, x, adjoint)).for_each(|(t, v)| *t += v);
                }
                total
            }
            LinearMap::Shared(shared) => shared.map().run(shape, x, adjoint),
            LinearMap::Operator(operator) => operator.run(shape, x, adjoint),
        }
    }

    fn dense(&self, shape: Shape) -> Matrix {
        let n = shape.len();
        let place =
            |i: usize| (i / (shape.width * shape.channels), i / shape.channels % shape.width, i % shape.channels);
        match self {
            LinearMap::Identity => Matrix::identity(n),
            LinearMap::Scale(a) => Matrix::diagonal(&vec![*a; n]),
            LinearMap::Separable { rows, cols } => Matrix::from_fn(n, n, |i, j| {
                let ((row, col, channel), (from_row, from_col, from_channel)) = (place(i), place(j));
                if channel == from_channel { rows[(row, from_row)] * cols[(col, from_col)] } else { 0.0 }
            }),
            LinearMap::Spectral { rows, cols, gains } => {
                let basis = LinearMap::Separable { rows: rows.clone(), cols: cols.clone() }.dense(shape);
                let gains = LinearMap::PixelDiagonal(gains.clone()).dense(shape);
                basis.transposed_times(&gains.times(&basis))
            }
            LinearMap::PixelDiagonal(weights) => {
                Matrix::from_fn(n, n, |i, j| if i == j { weights[i / shape.channels] } else { 0.0 })
            }
            LinearMap::ChannelMix(matrix) => Matrix::from_fn(n, n, |i, j| {
                if i / shape.channels == j / shape.channels {
                    matrix[(i % shape.channels, j % shape.channels)]
                } else {
                    0.0
                }
            }),
            LinearMap::Dense(matrix) => matrix.clone(),
            LinearMap::Compose(parts) => {
                parts.iter().fold(Matrix::identity(n), |product, part| part.dense(shape).times(&product))
            }
            LinearMap::Sum(parts) => {
                parts.iter().fold(Matrix::zeros(n, n), |total, part| total.combined(1.0, &part.dense(shape), 1.0))
            }
            LinearMap::Shared(shared) => shared.map().dense(shape),
            LinearMap::Operator(operator) => {
                let mut dense = Matrix::zeros(n, n);
                for j in 0..n {
                    let unit: Vec<f64> = (0..n).map(|i| if i == j { 1.0 } else { 0.0 }).collect();
                    operator.run(shape, &unit, false).iter().enumerate().for_each(|(i, value)| dense[(i, j)] = *value);
                }
                dense
            }
        }
    }
}
