//! The spatial modes that survive the last corruption.

use super::PriorError;
use super::corrupted::Corrupted;
use crate::corruption::{LinearMap, Shape};
use crate::linalg::{Matrix, Strided, SymmetricEigen, multiply_into};
use rayon::prelude::*;
use softdiff_engine::memory;
use softdiff_engine::pixels::PixelValue;

/// Orthonormal images of one channel; coefficients are taken for every channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Modes {
    shape: Shape,
    /// Row k is mode k over the pixels.
    basis: Matrix,
    /// How much of a mode the corruption lets through, or its deviation in the data where that is not known.
    gains: Vec<f64>,
}

impl Modes {
    /// The `count` leading modes of the map C_1.
    ///
    /// For separable and spectral maps these are products of one-dimensional singular vectors, ordered by their gain;
    /// for any other map, principal components of the corrupted images themselves.
    pub fn leading(shape: Shape, map: &LinearMap, corrupted: &[f64], count: usize) -> Result<Self, PriorError> {
        match Self::of_map(shape, map, count)? {
            Some(modes) => Ok(modes),
            None => Self::of_images(&Corrupted::new(shape, &LinearMap::Identity, corrupted)?, count),
        }
    }

    /// The principal components of images.
    pub(super) fn of_images<V: PixelValue>(images: &Corrupted<V>, count: usize) -> Result<Self, PriorError> {
        let (basis, gains) = principal_components(images, count)?;
        Ok(Modes { shape: images.shape, basis, gains })
    }

    /// Those that the map alone tells.
    pub(super) fn of_map(shape: Shape, map: &LinearMap, count: usize) -> Result<Option<Self>, PriorError> {
        let pixels = shape.pixels();
        if count == 0 {
            return Err(PriorError::Zero { what: "the number of modes" });
        }
        if count > pixels {
            return Err(PriorError::Modes { modes: count, pixels });
        }
        let (basis, gains) = match map {
            LinearMap::Separable { rows, cols } => {
                let (rows, cols) = (left_singular(rows)?, left_singular(cols)?);
                let gains: Vec<f64> = rows.0.iter().flat_map(|r| cols.0.iter().map(move |c| r * c)).collect();
                products(&rows.1, &cols.1, &gains, count)
            }
            LinearMap::Spectral { rows, cols, gains } => products(rows, cols, gains, count),
            _ => return Ok(None),
        };
        Ok(Some(Modes { shape, basis, gains }))
    }

    /// Modes whose coefficients of clean images are those of `map` applied to them, by `<b, C x> = <C^T b, x>`, for a map
    /// that treats channels alike.
    pub(super) fn before(&self, map: &LinearMap) -> Result<Self, PriorError> {
        let plane = Shape { channels: 1, ..self.shape };
        let mut before = self.clone();
        for mode in 0..self.count() {
            before.basis.row_mut(mode).copy_from_slice(&map.adjoint(plane, self.basis.row(mode))?);
        }
        Ok(before)
    }

    pub(super) fn from_parts(shape: Shape, basis: Matrix, gains: Vec<f64>) -> Self {
        Modes { shape, basis, gains }
    }

    /// How many modes there are.
    pub fn count(&self) -> usize {
        self.basis.rows()
    }

    /// Row k is mode k over the pixels.
    pub fn basis(&self) -> &Matrix {
        &self.basis
    }

    /// How much of each mode survives.
    pub fn gains(&self) -> &[f64] {
        &self.gains
    }

    /// Coefficients of images, a row for each: mode by mode, channels within a mode.
    pub fn coefficients(&self, images: &[f64]) -> Matrix {
        let columns = self.count() * self.shape.channels;
        let mut coefficients = Matrix::zeros(images.len() / self.shape.len(), columns);
        let by_pixel = self.basis.transposed();
        let rows = coefficients.values_mut().par_chunks_exact_mut(columns);
        rows.zip(images.par_chunks_exact(self.shape.len())).for_each(|(row, image)| self.fill(&by_pixel, image, row));
        coefficients
    }

    /// The same of images that are not there at once.
    pub(super) fn coefficients_of<V: PixelValue>(&self, images: &Corrupted<V>) -> Result<Matrix, PriorError> {
        let mut coefficients = Matrix::zeros(images.count(), self.count() * self.shape.channels);
        let by_pixel = self.basis.transposed();
        images.for_each(coefficients.values_mut(), |image, row| self.fill(&by_pixel, image, row))?;
        Ok(coefficients)
    }

    fn fill(&self, by_pixel: &Matrix, image: &[f64], row: &mut [f64]) {
        let (channels, count) = (self.shape.channels, self.count());
        // Channel by channel while they are summed, so that the modes lie together.
        let mut sums = vec![0.0; count * channels];
        for (pixel, values) in image.chunks_exact(channels).enumerate() {
            for (sums, value) in sums.chunks_exact_mut(count).zip(values) {
                sums.iter_mut().zip(by_pixel.row(pixel)).for_each(|(sum, weight)| *sum += weight * value);
            }
        }
        for (index, value) in row.iter_mut().enumerate() {
            *value = sums[index % channels * count + index / channels];
        }
    }

    /// The image of some coefficients.
    pub fn image(&self, coefficients: &[f64]) -> Vec<f64> {
        let channels = self.shape.channels;
        let mut image = vec![0.0; self.shape.len()];
        for (mode, values) in coefficients.chunks_exact(channels).enumerate() {
            for (pixel, weight) in image.chunks_exact_mut(channels).zip(self.basis.row(mode)) {
                pixel.iter_mut().zip(values).for_each(|(p, v)| *p += weight * v);
            }
        }
        image
    }
}

/// Singular values and left singular vectors (rows) of a square matrix.
fn left_singular(matrix: &Matrix) -> Result<(Vec<f64>, Matrix), PriorError> {
    let eigen = SymmetricEigen::new(&matrix.times_transposed(matrix))?;
    Ok((eigen.values.iter().map(|v| v.max(0.0).sqrt()).collect(), eigen.vectors))
}

/// The products of row and column functions with the largest gains.
fn products(rows: &Matrix, cols: &Matrix, gains: &[f64], count: usize) -> (Matrix, Vec<f64>) {
    let (height, width) = (rows.cols(), cols.cols());
    let mut order: Vec<usize> = (0..gains.len()).collect();
    order.sort_by(|&a, &b| gains[b].abs().total_cmp(&gains[a].abs()).then(a.cmp(&b)));
    order.truncate(count);
    let basis = Matrix::from_fn(count, height * width, |mode, pixel| {
        let (row, col) = (order[mode] / cols.rows(), order[mode] % cols.rows());
        rows[(row, pixel / width)] * cols[(col, pixel % width)]
    });
    (basis, order.iter().map(|&k| gains[k].abs()).collect())
}

/// Directions of largest variance over the planes of all channels, in two passes: the mean, then the covariance.
fn principal_components<V: PixelValue>(images: &Corrupted<V>, count: usize) -> Result<(Matrix, Vec<f64>), PriorError> {
    let shape = images.shape;
    let planes = images.count() * shape.channels;
    if planes < 2 {
        return Err(PriorError::TooFewImages { images: planes, dimensions: count, components: 1 });
    }
    // The covariance of all pixels, its eigenvectors, and what computing them takes.
    let covariance = (shape.pixels() as u64).saturating_pow(2).saturating_mul(3 * size_of::<f64>() as u64);
    let hint = "give smaller images by data.size, or another prior by prior.kind";
    memory::require(covariance, format!("the covariance of the {} pixels of {shape}", shape.pixels()), hint)?;
    let cloud = |chunk: Vec<f64>| {
        Matrix::from_fn(chunk.len() / shape.pixels(), shape.pixels(), |plane, pixel| {
            chunk[plane / shape.channels * shape.len() + pixel * shape.channels + plane % shape.channels]
        })
    };
    let mut mean = vec![0.0; shape.pixels()];
    for chunk in images.chunks() {
        for plane in cloud(chunk?).values().chunks_exact(shape.pixels()) {
            mean.iter_mut().zip(plane).for_each(|(mean, value)| *mean += value);
        }
    }
    let scale = 1.0 / planes as f64;
    mean.iter_mut().for_each(|mean| *mean *= scale);
    let mut scatter = Matrix::zeros(shape.pixels(), shape.pixels());
    for chunk in images.chunks() {
        let centred = cloud(chunk?).centred(&mean);
        multiply_into(Strided::of(&centred).transposed(), Strided::of(&centred), scatter.values_mut(), true);
    }
    let eigen = SymmetricEigen::new(&scatter)?;
    let gains = eigen.values[..count].iter().map(|v| (v.max(0.0) / planes as f64).sqrt()).collect();
    Ok((Matrix::from_fn(count, shape.pixels(), |k, pixel| eigen.vectors[(k, pixel)]), gains))
}
