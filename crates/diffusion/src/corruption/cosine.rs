//! Maps that are diagonal in the cosine basis, by fast transforms: `n log n` instead of `n^2` for photographs.

use super::{LinearMap, LinearOperator, Shape, SharedOperator};
use rayon::prelude::*;
use rustdct::{DctPlanner, TransformType2And3};
use std::fmt;
use std::sync::Arc;

/// `X -> B^T (gains * (B X D^T)) D` for every channel, B and D the cosine bases (DCT-II).
#[derive(Clone)]
pub struct CosineFilter {
    transform: CosineTransform,
    gains: Vec<f64>,
}

impl CosineFilter {
    /// A filter of images of `shape` by one gain per frequency, row by row.
    pub fn new(shape: Shape, gains: Vec<f64>) -> CosineFilter {
        assert_eq!(gains.len(), shape.pixels(), "one gain per frequency");
        CosineFilter { transform: CosineTransform::new(shape.height, shape.width), gains }
    }

    /// The filter as a map.
    pub fn map(self) -> LinearMap {
        LinearMap::Operator(SharedOperator::new(self))
    }
}

impl LinearOperator for CosineFilter {
    fn name(&self) -> &'static str {
        "cosine filter"
    }

    fn shape(&self) -> Shape {
        Shape::new(self.transform.height, self.transform.width, 1)
    }

    /// It is symmetric.
    fn run(&self, shape: Shape, x: &[f64], _: bool) -> Vec<f64> {
        let mut coefficients = self.transform.coefficients(shape.channels, x);
        coefficients.change(|i, values| values.iter_mut().for_each(|value| *value *= self.gains[i]));
        self.transform.image(coefficients)
    }

    fn cosine_gains(&self) -> Option<Vec<f64>> {
        Some(self.gains.clone())
    }
}

impl fmt::Debug for CosineFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CosineFilter").field("transform", &self.transform).field("gains", &self.gains).finish()
    }
}

/// The cosine transform of images in both directions.
#[derive(Clone)]
pub struct CosineTransform {
    height: usize,
    width: usize,
    along_rows: Arc<dyn TransformType2And3<f64>>,
    along_columns: Arc<dyn TransformType2And3<f64>>,
}

/// The cosine coefficients of an image, up to a factor: by column, channel and row.
#[derive(Clone, Debug)]
pub struct Coefficients {
    values: Vec<f64>,
    channels: usize,
    height: usize,
}

impl CosineTransform {
    /// For images of this size.
    pub fn new(height: usize, width: usize) -> CosineTransform {
        let mut planner = DctPlanner::new();
        let (along_rows, along_columns) = (planner.plan_dct2(width), planner.plan_dct2(height));
        CosineTransform { height, width, along_rows, along_columns }
    }

    /// The coefficients of an image.
    pub fn coefficients(&self, channels: usize, image: &[f64]) -> Coefficients {
        let (height, width) = (self.height, self.width);
        let mut rows = vec![0.0; image.len()];
        let pixels = image.par_chunks_exact(channels * width);
        rows.par_chunks_exact_mut(channels * width).zip(pixels).for_each_init(
            || vec![0.0; self.along_rows.get_scratch_len()],
            |scratch, (lines, pixels)| {
                for (channel, line) in lines.chunks_exact_mut(width).enumerate() {
                    let values = pixels.iter().skip(channel).step_by(channels);
                    line.iter_mut().zip(values).for_each(|(to, from)| *to = *from);
                    self.along_rows.process_dct2_with_scratch(line, scratch);
                }
            },
        );
        let mut values = transposed(&rows, [height, channels, width]);
        values.par_chunks_exact_mut(height).for_each_init(
            || vec![0.0; self.along_columns.get_scratch_len()],
            |scratch, line| self.along_columns.process_dct2_with_scratch(line, scratch),
        );
        Coefficients { values, channels, height }
    }

    /// The image of its coefficients.
    pub fn image(&self, coefficients: Coefficients) -> Vec<f64> {
        let (height, width) = (self.height, self.width);
        let Coefficients { mut values, channels, .. } = coefficients;
        values.par_chunks_exact_mut(height).for_each_init(
            || vec![0.0; self.along_columns.get_scratch_len()],
            |scratch, line| self.along_columns.process_dct3_with_scratch(line, scratch),
        );
        let mut rows = transposed(&values, [width, channels, height]);
        let mut image = values;
        let scale = 4.0 / (height * width) as f64;
        let lines = rows.par_chunks_exact_mut(channels * width);
        image.par_chunks_exact_mut(channels * width).zip(lines).for_each_init(
            || vec![0.0; self.along_rows.get_scratch_len()],
            |scratch, (pixels, lines)| {
                for (channel, line) in lines.chunks_exact_mut(width).enumerate() {
                    self.along_rows.process_dct3_with_scratch(line, scratch);
                    let values = pixels.iter_mut().skip(channel).step_by(channels);
                    values.zip(line).for_each(|(to, from)| *to = scale * *from);
                }
            },
        );
        image
    }

    /// The coefficients of a plane in the orthonormal basis, row by row.
    pub fn orthonormal(&self, plane: &[f64]) -> Vec<f64> {
        let Coefficients { values, .. } = self.coefficients(1, plane);
        let mut out = transposed(&values, [self.width, 1, self.height]);
        // rustdct leaves out sqrt(2 / n), and sqrt(1 / n) of the mean.
        let scale = 2.0 / (plane.len() as f64).sqrt();
        for (index, value) in out.iter_mut().enumerate() {
            let constant = |is: bool| if is { std::f64::consts::FRAC_1_SQRT_2 } else { 1.0 };
            *value *= scale * constant(index < self.width) * constant(index.is_multiple_of(self.width));
        }
        out
    }
}

impl Coefficients {
    /// Calls `change` for each frequency, numbered row by row, with the coefficients of all channels.
    pub fn change(&mut self, change: impl Fn(usize, &mut [f64]) + Sync) {
        let (channels, height) = (self.channels, self.height);
        let width = self.values.len() / (channels * height);
        self.values.par_chunks_exact_mut(channels * height).enumerate().for_each_init(
            || vec![0.0; channels],
            |all, (column, lines)| {
                for row in 0..height {
                    all.iter_mut().enumerate().for_each(|(channel, value)| *value = lines[channel * height + row]);
                    change(row * width + column, all);
                    all.iter().enumerate().for_each(|(channel, value)| lines[channel * height + row] = *value);
                }
            },
        );
    }

    /// Adds those of another image of the same shape.
    pub fn add(&mut self, other: &Coefficients) {
        self.values.par_iter_mut().zip(&other.values).for_each(|(sum, value)| *sum += value);
    }
}

impl fmt::Debug for CosineTransform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.height, self.width)
    }
}

/// Values by column, channel and row instead of row, channel and column, or the other way round, in blocks that stay in the cache.
fn transposed(values: &[f64], [rows, channels, columns]: [usize; 3]) -> Vec<f64> {
    const BLOCK: usize = 32;
    let mut out = vec![0.0; values.len()];
    out.par_chunks_mut(BLOCK * channels * rows).enumerate().for_each(|(block, out)| {
        for top in (0..rows).step_by(BLOCK) {
            for (column, lines) in out.chunks_exact_mut(channels * rows).enumerate() {
                let x = block * BLOCK + column;
                for (channel, line) in lines.chunks_exact_mut(rows).enumerate() {
                    for row in top..(top + BLOCK).min(rows) {
                        line[row] = values[(row * channels + channel) * columns + x];
                    }
                }
            }
        }
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corruption::cosine_basis;
    use softdiff_engine::rng::RandomStream;

    #[test]
    fn the_fast_transform_is_the_orthonormal_one() {
        for (height, width) in [(5, 7), (8, 8), (1, 9), (33, 70)] {
            let x = RandomStream::new(1, "image").normals(height * width);
            let matrix = crate::linalg::Matrix::from_vec(height, width, x.clone()).unwrap();
            let slow = cosine_basis(height).times(&matrix).times_transposed(&cosine_basis(width));
            let fast = CosineTransform::new(height, width).orthonormal(&x);
            let far = slow.values().iter().zip(&fast).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(far < 1e-12, "{height}x{width}: {far}");
        }
    }

    #[test]
    fn the_fast_filter_is_the_filter_by_matrices() {
        for (height, width, channels) in [(5, 7, 3), (8, 8, 1), (1, 9, 2), (33, 70, 1)] {
            let shape = Shape::new(height, width, channels);
            let gains: Vec<f64> = (0..shape.pixels()).map(|i| 1.0 / (1 + i) as f64 - 0.1).collect();
            let (rows, cols) = (cosine_basis(height), cosine_basis(width));
            let slow = LinearMap::Spectral { rows, cols, gains: gains.clone() };
            let fast = CosineFilter::new(shape, gains).map();
            let x = RandomStream::new(1, "image").normals(shape.len());
            for adjoint in [false, true] {
                let run = |map: &LinearMap| match adjoint {
                    true => map.adjoint(shape, &x).unwrap(),
                    false => map.apply(shape, &x).unwrap(),
                };
                let far = run(&slow).iter().zip(run(&fast)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(far < 1e-12, "{shape}: {far}");
            }
        }
    }
}
