//! Images made smaller by a whole factor, as other programs do it.

use super::{LinearMap, LinearOperator, Shape, SharedOperator};
use rayon::prelude::*;

/// How the pixels of a smaller image come from those of the larger one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShrinkFilter {
    /// Means over blocks.
    Box,
    /// Keys' cubic with a = -1/2, as wide as the factor asks for: Pillow's `BICUBIC` and MATLAB's `imresize`.
    #[default]
    Bicubic,
}

impl ShrinkFilter {
    /// Half of its width, in pixels of the smaller image.
    fn support(self) -> f64 {
        match self {
            ShrinkFilter::Box => 0.5,
            ShrinkFilter::Bicubic => 2.0,
        }
    }

    fn at(self, x: f64) -> f64 {
        const A: f64 = -0.5;
        let x = x.abs();
        match self {
            ShrinkFilter::Box => f64::from(u8::from(x <= 0.5)),
            ShrinkFilter::Bicubic if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
            ShrinkFilter::Bicubic if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
            ShrinkFilter::Bicubic => 0.0,
        }
    }
}

/// `x -> U D x`: D makes an image smaller, U repeats its pixels, so that the result has the size of x.
#[derive(Debug)]
pub struct Shrinking {
    shape: Shape,
    small: Shape,
    rows: LineMap,
    cols: LineMap,
}

impl Shrinking {
    /// From images of `shape` to images of a size that divides theirs.
    pub fn new(shape: Shape, (height, width): (usize, usize), filter: ShrinkFilter) -> Shrinking {
        let small = Shape { height, width, ..shape };
        let (rows, cols) = (LineMap::new(shape.height, height, filter), LineMap::new(shape.width, width, filter));
        Shrinking { shape, small, rows, cols }
    }

    /// The map of all of it.
    pub fn map(self) -> LinearMap {
        LinearMap::Operator(SharedOperator::new(self))
    }

    fn factors(&self) -> (usize, usize) {
        (self.shape.height / self.small.height, self.shape.width / self.small.width)
    }
}

impl LinearOperator for Shrinking {
    fn name(&self) -> &'static str {
        "shrinking"
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn run(&self, shape: Shape, x: &[f64], adjoint: bool) -> Vec<f64> {
        let (channels, (down, across)) = (shape.channels, self.factors());
        if adjoint {
            let mut sums = vec![0.0; self.small.height * self.small.width * channels];
            let wide = self.small.width * channels;
            sums.par_chunks_exact_mut(wide).zip(x.par_chunks_exact(down * shape.width * channels)).for_each(
                |(sums, rows)| {
                    for (i, value) in rows.iter().enumerate() {
                        sums[i / channels % shape.width / across * channels + i % channels] += value;
                    }
                },
            );
            let tall = vertical(&sums, wide, &self.rows.backward);
            return horizontal(&tall, self.small.width, channels, &self.cols.backward);
        }
        let narrow = horizontal(x, shape.width, channels, &self.cols.forward);
        let small = vertical(&narrow, self.small.width * channels, &self.rows.forward);
        let mut out = vec![0.0; shape.height * shape.width * channels];
        out.par_chunks_exact_mut(shape.width * channels).enumerate().for_each(|(y, row)| {
            let from = &small[y / down * self.small.width * channels..];
            for (x, pixel) in row.chunks_exact_mut(channels).enumerate() {
                pixel.copy_from_slice(&from[x / across * channels..(x / across + 1) * channels]);
            }
        });
        out
    }
}

/// A sparse matrix by its rows: places and weights.
type SparseRows = Vec<Vec<(usize, f64)>>;

/// D along one side, and its transpose.
#[derive(Debug)]
struct LineMap {
    forward: SparseRows,
    backward: SparseRows,
}

impl LineMap {
    /// The weights are those of Pillow: cut off at the border and scaled to sum to 1.
    fn new(large: usize, small: usize, filter: ShrinkFilter) -> LineMap {
        let factor = large as f64 / small as f64;
        let mut backward = vec![Vec::new(); large];
        let line = |i: usize| {
            let (centre, half) = ((i as f64 + 0.5) * factor, filter.support() * factor);
            let first = (centre - half + 0.5).max(0.0) as usize;
            let last = ((centre + half + 0.5) as usize).min(large);
            let mut line: Vec<(usize, f64)> =
                (first..last).map(|x| (x, filter.at((x as f64 + 0.5 - centre) / factor))).collect();
            let total: f64 = line.iter().map(|tap| tap.1).sum();
            line.iter_mut().for_each(|tap| tap.1 /= total);
            line
        };
        let forward: SparseRows = (0..small).map(line).collect();
        for (i, line) in forward.iter().enumerate() {
            line.iter().for_each(|&(x, weight)| backward[x].push((i, weight)));
        }
        LineMap { forward, backward }
    }
}

/// Every column of an image, whose rows have `wide` values, times a matrix.
fn vertical(image: &[f64], wide: usize, matrix: &SparseRows) -> Vec<f64> {
    let mut out = vec![0.0; matrix.len() * wide];
    out.par_chunks_exact_mut(wide).zip(matrix).for_each(|(out, taps)| {
        for &(row, weight) in taps {
            out.iter_mut().zip(&image[row * wide..(row + 1) * wide]).for_each(|(out, value)| *out += weight * value);
        }
    });
    out
}

/// Every row of an image of so many columns times a matrix.
fn horizontal(image: &[f64], width: usize, channels: usize, matrix: &SparseRows) -> Vec<f64> {
    let rows = image.len() / (width * channels);
    let mut out = vec![0.0; rows * matrix.len() * channels];
    let pairs = out.par_chunks_exact_mut(matrix.len() * channels).zip(image.par_chunks_exact(width * channels));
    pairs.for_each(|(out, row)| {
        for (pixel, taps) in out.chunks_exact_mut(channels).zip(matrix) {
            for &(column, weight) in taps {
                let from = &row[column * channels..(column + 1) * channels];
                pixel.iter_mut().zip(from).for_each(|(out, value)| *out += weight * value);
            }
        }
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::dot;
    use softdiff_engine::rng::RandomStream;

    #[test]
    fn boxes_are_means_over_blocks() {
        let shape = Shape::new(4, 6, 2);
        let x = RandomStream::new(1, "x").normals(shape.len());
        let seen = Shrinking::new(shape, (2, 2), ShrinkFilter::Box).map().apply(shape, &x).unwrap();
        for (i, value) in seen.iter().enumerate() {
            let (y, column, channel) = (i / 12 / 2 * 2, i / 2 % 6 / 3 * 3, i % 2);
            let block = (0..6).map(|k| x[((y + k / 3) * 6 + column + k % 3) * 2 + channel]);
            assert!((value - block.sum::<f64>() / 6.0).abs() < 1e-12);
        }
    }

    #[test]
    fn bicubic_weights_are_those_of_pillow() {
        // Pillow 13.0: each column is Image.fromarray(row).resize((4, 1), Image.Resampling.BICUBIC) of a float row with one 1.
        const PILLOW: [[f64; 8]; 2] = [
            [0.4644352, 0.4644352, 0.1213389, -0.0376569, -0.0125523, 0.0, 0.0, 0.0],
            [-0.034749, 0.1119691, 0.4285714, 0.4285714, 0.1119691, -0.034749, -0.011583, 0.0],
        ];
        let found = LineMap::new(8, 4, ShrinkFilter::Bicubic).forward;
        for (line, pillow) in found.iter().zip(PILLOW) {
            let mut weights = [0.0; 8];
            line.iter().for_each(|&(place, weight)| weights[place] = weight);
            let far = weights.iter().zip(pillow).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(far < 1e-6, "{weights:?}");
        }
    }

    #[test]
    fn the_adjoint_is_the_adjoint() {
        for (shape, small) in [(Shape::new(12, 8, 3), (3, 4)), (Shape::new(9, 6, 1), (3, 6))] {
            for filter in [ShrinkFilter::Box, ShrinkFilter::Bicubic] {
                let map = Shrinking::new(shape, small, filter).map();
                let [x, y] = ["x", "y"].map(|name| RandomStream::new(2, name).normals(shape.len()));
                let there = dot(&map.apply(shape, &x).unwrap(), &y);
                let back = dot(&x, &map.adjoint(shape, &y).unwrap());
                assert!((there - back).abs() < 1e-10, "{there} {back}");
            }
        }
    }
}
