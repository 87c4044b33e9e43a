//! Maps that are diagonal in the cosine basis, by fast transforms: `n log n` instead of `n^2` for photographs.

use super::separable::{image_from_planes, planes_from_image};
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
        let mut planes = planes_from_image(shape, x);
        for plane in planes.chunks_exact_mut(shape.pixels()) {
            self.transform.filter(plane, &self.gains);
        }
        image_from_planes(shape, &planes)
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

/// The cosine transform of one plane in both directions.
#[derive(Clone)]
pub struct CosineTransform {
    height: usize,
    width: usize,
    along_rows: Arc<dyn TransformType2And3<f64>>,
    along_columns: Arc<dyn TransformType2And3<f64>>,
}

impl CosineTransform {
    /// For planes of this size.
    pub fn new(height: usize, width: usize) -> CosineTransform {
        let mut planner = DctPlanner::new();
        let (along_rows, along_columns) = (planner.plan_dct2(width), planner.plan_dct2(height));
        CosineTransform { height, width, along_rows, along_columns }
    }

    /// The coefficients of a plane in the orthonormal basis, row by row.
    pub fn forward(&self, plane: &mut [f64]) {
        let (height, width) = (self.height, self.width);
        lines(plane, width, &*self.along_rows, true);
        let mut columns = transposed(plane, height, width);
        lines(&mut columns, height, &*self.along_columns, true);
        plane.copy_from_slice(&transposed(&columns, width, height));
        // rustdct leaves out sqrt(2 / n), and sqrt(1 / n) of the mean.
        let scale = 2.0 / ((height * width) as f64).sqrt();
        for (index, value) in plane.iter_mut().enumerate() {
            let constant = |is: bool| if is { std::f64::consts::FRAC_1_SQRT_2 } else { 1.0 };
            *value *= scale * constant(index < width) * constant(index % width == 0);
        }
    }

    /// Multiplies every frequency of a plane by its gain, row by row.
    pub fn filter(&self, plane: &mut [f64], gains: &[f64]) {
        let (height, width) = (self.height, self.width);
        lines(plane, width, &*self.along_rows, true);
        let mut columns = transposed(plane, height, width);
        columns.par_chunks_exact_mut(height).enumerate().for_each_init(
            || vec![0.0; self.along_columns.get_scratch_len()],
            |scratch, (column, line)| {
                self.along_columns.process_dct2_with_scratch(line, scratch);
                line.iter_mut().enumerate().for_each(|(row, value)| *value *= gains[row * width + column]);
                self.along_columns.process_dct3_with_scratch(line, scratch);
            },
        );
        plane.copy_from_slice(&transposed(&columns, width, height));
        lines(plane, width, &*self.along_rows, false);
        let scale = 4.0 / (height * width) as f64;
        plane.par_iter_mut().for_each(|value| *value *= scale);
    }
}

impl fmt::Debug for CosineTransform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.height, self.width)
    }
}

fn lines(plane: &mut [f64], width: usize, transform: &dyn TransformType2And3<f64>, forward: bool) {
    plane.par_chunks_exact_mut(width).for_each_init(
        || vec![0.0; transform.get_scratch_len()],
        |scratch, line| match forward {
            true => transform.process_dct2_with_scratch(line, scratch),
            false => transform.process_dct3_with_scratch(line, scratch),
        },
    );
}

/// The columns of a plane one after the other, in blocks that stay in the cache.
fn transposed(plane: &[f64], height: usize, width: usize) -> Vec<f64> {
    const BLOCK: usize = 32;
    let mut out = vec![0.0; plane.len()];
    out.par_chunks_mut(BLOCK * height).enumerate().for_each(|(block, out)| {
        for top in (0..height).step_by(BLOCK) {
            for (column, line) in out.chunks_exact_mut(height).enumerate() {
                let x = block * BLOCK + column;
                for row in top..(top + BLOCK).min(height) {
                    line[row] = plane[row * width + x];
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
            let mut fast = x;
            CosineTransform::new(height, width).forward(&mut fast);
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
