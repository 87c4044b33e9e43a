//! 3x3 convolutions of stride 1 by Winograd's minimal filtering F(2x2, 3x3) (Lavin & Gray, 2016): every tile of 2x2
//! outputs takes 16 products per channel and filter instead of 36.
//!
//! A tile of 4x4 sources becomes 16 transformed values, each of the 16 positions is one matrix product over channels, and
//! 16 products become 2x2 outputs. Sums of two stay exact to a few units in the last place (F(4x4, 3x3) would not).
#![allow(unsafe_code)]

use super::conv::{Epilogue, Shared};
use super::simd::vectorized;
use super::tile::ROWS;
use crate::Scalar;
use rayon::prelude::*;

/// Values of a transformed tile.
pub const POSITIONS: usize = 16;
/// Channels from which on it pays.
const LEAST: usize = 24;
/// Elements of transformed sources and products that a task keeps: half of a usual second-level cache in `f32`.
const BLOCK_ELEMENTS: usize = 131_072;

/// A convolution of `source` images to `height` x `width` outputs: output (y, x) reads sources from
/// (y - pad[0], x - pad[1]) on.
pub struct Winograd<'a, T> {
    pub batch: usize,
    pub height: usize,
    pub width: usize,
    pub source_height: usize,
    pub source_width: usize,
    pub pad: [usize; 2],
    pub depth: usize,
    pub columns: usize,
    pub source: &'a [T],
    pub zeros: &'a [T],
}

/// Whether a convolution with these channels on either side is worth transforming.
pub fn pays(depth: usize, columns: usize) -> bool {
    depth >= LEAST && columns >= LEAST
}

/// Transforms weights packed as panels of `[taps, depth, NR]` to `[position, panel, depth, NR]`; `flip` turns the kernel
/// by half a turn.
pub fn transform_weights<T: Scalar>(packed: &[T], depth: usize, flip: bool, out: &mut [T]) {
    let panels = packed.len() / (9 * depth * T::NR);
    let shared = Shared(out.as_mut_ptr());
    assert!(out.len() >= POSITIONS * panels * depth * T::NR);
    packed.par_chunks_exact(9 * depth * T::NR).enumerate().for_each(|(panel, packed)| {
        let mut values = [T::ZERO; POSITIONS * 32];
        for k in 0..depth {
            let taps: [&[T]; 9] = std::array::from_fn(|tap| {
                let tap = if flip { 8 - tap } else { tap };
                &packed[(tap * depth + k) * T::NR..][..T::NR]
            });
            weight_tile(&taps, &mut values[..POSITIONS * T::NR]);
            for (position, values) in values.chunks_exact(T::NR).enumerate().take(POSITIONS) {
                let at = ((position * panels + panel) * depth + k) * T::NR;
                // SAFETY: within `out` (asserted); every position, panel and row is written by one task.
                unsafe { std::slice::from_raw_parts_mut(shared.at(at), T::NR) }.copy_from_slice(values);
            }
        }
    });
}

vectorized! {
    /// `G g G^T` for a lane of filters, G = [1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1].
    fn weight_tile<T: Scalar>(taps: &[&[T]; 9], out: &mut [T]) {
        let lanes = out.len() / POSITIONS;
        let half = T::from_f64(0.5);
        for j in 0..lanes {
            let g = |row: usize, column: usize| taps[3 * row + column][j];
            let mut rows = [[T::ZERO; 3]; 4];
            for column in 0..3 {
                let (a, b, c) = (g(0, column), g(1, column), g(2, column));
                rows[0][column] = a;
                rows[1][column] = half * (a + b + c);
                rows[2][column] = half * (a - b + c);
                rows[3][column] = c;
            }
            for (row, [a, b, c]) in rows.into_iter().enumerate() {
                out[(4 * row) * lanes + j] = a;
                out[(4 * row + 1) * lanes + j] = half * (a + b + c);
                out[(4 * row + 2) * lanes + j] = half * (a - b + c);
                out[(4 * row + 3) * lanes + j] = c;
            }
        }
    }
}

impl<T: Scalar> Winograd<'_, T> {
    /// Computes all outputs from transformed weights.
    pub fn run(&self, weights: &[T], end: &Epilogue<T>, out: &mut [T]) {
        let (rows, columns) = (self.height.div_ceil(2), self.width.div_ceil(2));
        let tiles = self.batch * rows * columns;
        let panels = self.columns.div_ceil(T::NR);
        let padded = panels * T::NR;
        let per_task = (BLOCK_ELEMENTS / (POSITIONS * (self.depth + padded)) / ROWS * ROWS).clamp(ROWS, 64).min(tiles);
        let shared = Shared(out.as_mut_ptr());
        assert!(out.len() == self.batch * self.height * self.width * self.columns);
        (0..tiles.div_ceil(per_task)).into_par_iter().for_each_init(
            || (Vec::new(), Vec::new()),
            |(inputs, products), task| {
                let first = task * per_task;
                let count = per_task.min(tiles - first);
                let groups = count.div_ceil(ROWS);
                // Rows past the last tile keep what was there; their products are never read.
                inputs.resize(POSITIONS * groups * ROWS * self.depth, T::ZERO);
                products.resize(POSITIONS * groups * ROWS * padded, T::ZERO);
                let place = |tile: usize| {
                    let tile = first + tile;
                    (tile / (rows * columns), tile / columns % rows * 2, tile % columns * 2)
                };
                let stride = groups * ROWS * self.depth;
                for tile in 0..count {
                    let sources = self.sources(place(tile));
                    transform_input(&sources, &mut inputs[tile * self.depth..], stride);
                }
                self.multiply(weights, inputs, products, groups, panels);
                let mut pixels = vec![T::ZERO; 4 * padded];
                for tile in 0..count {
                    transform_output(&products[tile * padded..], groups * ROWS * padded, &mut pixels);
                    let (n, y, x) = place(tile);
                    for (corner, values) in pixels.chunks_exact(padded).enumerate() {
                        let (y, x) = (y + corner / 2, x + corner % 2);
                        if y < self.height && x < self.width {
                            let at = ((n * self.height + y) * self.width + x) * self.columns;
                            // SAFETY: within `out` (asserted); every pixel belongs to one tile.
                            let to = unsafe { std::slice::from_raw_parts_mut(shared.at(at), self.columns) };
                            end.finish(&values[..self.columns], to, 0, at);
                        }
                    }
                }
            },
        );
    }

    /// The 4x4 source pixels of the tile whose first output is (y, x) of image n.
    fn sources(&self, (n, y, x): (usize, usize, usize)) -> [&[T]; POSITIONS] {
        std::array::from_fn(|i| {
            let row = (y + i / 4).checked_sub(self.pad[0]).filter(|&row| row < self.source_height);
            let column = (x + i % 4).checked_sub(self.pad[1]).filter(|&column| column < self.source_width);
            match (row, column) {
                (Some(row), Some(column)) => {
                    let at = (n * self.source_height + row) * self.source_width + column;
                    &self.source[at * self.depth..][..self.depth]
                }
                _ => &self.zeros[..self.depth],
            }
        })
    }

    /// One matrix product per position: `[tiles, depth] x [depth, columns]`.
    fn multiply(&self, weights: &[T], inputs: &[T], products: &mut [T], groups: usize, panels: usize) {
        let (depth, padded) = (self.depth, panels * T::NR);
        let mut tile = [T::ZERO; ROWS * 32];
        for position in 0..POSITIONS {
            for panel in 0..panels {
                let weights = &weights[(position * panels + panel) * depth * T::NR..][..depth * T::NR];
                for group in 0..groups {
                    let first = (position * groups + group) * ROWS;
                    let rows: [*const T; ROWS] = std::array::from_fn(|i| inputs[(first + i) * depth..].as_ptr());
                    // SAFETY: every row has `depth` values, the panel `depth * NR`, the tile `8 * NR`.
                    unsafe { T::rows_times_panel(1, depth, rows.as_ptr(), weights.as_ptr(), tile.as_mut_ptr()) };
                    for (i, values) in tile.chunks_exact(T::NR).enumerate().take(ROWS) {
                        products[(first + i) * padded + panel * T::NR..][..T::NR].copy_from_slice(values);
                    }
                }
            }
        }
    }
}

/// Lanes that are transformed at once; a power of two that divides every panel.
const LANES: usize = 16;

/// `out = a + b` or `a - b` over one block of lanes.
#[inline(always)]
fn sum<T: Scalar>(out: &mut [T; LANES], a: &[T; LANES], b: &[T; LANES]) {
    for j in 0..LANES {
        out[j] = a[j] + b[j];
    }
}

#[inline(always)]
fn difference<T: Scalar>(out: &mut [T; LANES], a: &[T; LANES], b: &[T; LANES]) {
    for j in 0..LANES {
        out[j] = a[j] - b[j];
    }
}

vectorized! {
    /// `B^T d B` per channel, B^T = [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1]; position p goes to `out[p * stride..]`.
    fn transform_input<T: Scalar>(sources: &[&[T]; POSITIONS], out: &mut [T], stride: usize) {
        let depth = sources[0].len();
        let mut padded = [[T::ZERO; LANES]; POSITIONS];
        let mut rows = [[T::ZERO; LANES]; POSITIONS];
        let mut values = [T::ZERO; LANES];
        for at in (0..depth).step_by(LANES) {
            let width = LANES.min(depth - at);
            for (padded, source) in padded.iter_mut().zip(sources) {
                match source[at..].first_chunk::<LANES>() {
                    Some(whole) => *padded = *whole,
                    None => padded[..width].copy_from_slice(&source[at..]),
                }
            }
            for column in 0..4 {
                difference(&mut rows[column], &padded[column], &padded[8 + column]);
                sum(&mut rows[4 + column], &padded[4 + column], &padded[8 + column]);
                difference(&mut rows[8 + column], &padded[8 + column], &padded[4 + column]);
                difference(&mut rows[12 + column], &padded[4 + column], &padded[12 + column]);
            }
            for row in (0..POSITIONS).step_by(4) {
                for column in 0..4 {
                    match column {
                        0 => difference(&mut values, &rows[row], &rows[row + 2]),
                        1 => sum(&mut values, &rows[row + 1], &rows[row + 2]),
                        2 => difference(&mut values, &rows[row + 2], &rows[row + 1]),
                        _ => difference(&mut values, &rows[row + 1], &rows[row + 3]),
                    }
                    let to = &mut out[(row + column) * stride + at..];
                    match to.first_chunk_mut::<LANES>() {
                        Some(to) if width == LANES => *to = values,
                        _ => to[..width].copy_from_slice(&values[..width]),
                    }
                }
            }
        }
    }
}

vectorized! {
    /// `A^T m A` per filter, A^T = [1 1 1 0; 0 1 -1 -1]; position p comes from `products[p * stride..]`.
    fn transform_output<T: Scalar>(products: &[T], stride: usize, out: &mut [T]) {
        let columns = out.len() / 4;
        let mut rows = [[T::ZERO; LANES]; 8];
        for at in (0..columns).step_by(LANES) {
            for column in 0..4 {
                let products = |row: usize| &products[(4 * row + column) * stride + at..][..LANES];
                let (a, b, c, d) = (products(0), products(1), products(2), products(3));
                for j in 0..LANES {
                    rows[column][j] = a[j] + b[j] + c[j];
                    rows[4 + column][j] = b[j] - c[j] - d[j];
                }
            }
            for row in 0..2 {
                let [a, b, c, d] = [0, 1, 2, 3].map(|column| &rows[4 * row + column]);
                let (left, right) = out[2 * row * columns..].split_at_mut(columns);
                let (left, right) = (&mut left[at..at + LANES], &mut right[at..at + LANES]);
                for j in 0..LANES {
                    left[j] = a[j] + b[j] + c[j];
                    right[j] = b[j] - c[j] - d[j];
                }
            }
        }
    }
}
