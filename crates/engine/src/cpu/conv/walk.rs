//! The walk over destination pixels, of the forward pass and of the input gradient.

use super::{Epilogue, Shared};
use crate::Scalar;
use crate::cpu::gemm::dot;
use crate::cpu::simd::vectorized;
use crate::cpu::tile::ROWS;
use crate::cpu::winograd::Winograd;
use rayon::prelude::*;

/// Destination pixels, each gathering one source row per tap.
pub(super) struct Walk<'a, T> {
    pub height: usize,
    pub width: usize,
    pub row_sources: Vec<Option<usize>>,
    pub col_sources: Vec<Option<usize>>,
    pub row_taps: usize,
    pub col_taps: usize,
    pub source_height: usize,
    pub source_width: usize,
    pub source: &'a [T],
    pub zeros: &'a [T],
    pub depth: usize,
    pub columns: usize,
}

/// Output channels up to which plain dot products beat a padded panel.
pub(super) const NARROW: usize = 4;
/// Destination pixels of one task: small enough that their sources stay in the second-level cache.
const BLOCK: usize = 64;

impl<T: Scalar> Walk<'_, T> {
    /// The same walk by tiles of 2x2.
    pub fn winograd(&self, batch: usize, pad: [usize; 2]) -> Winograd<'_, T> {
        Winograd {
            batch,
            height: self.height,
            width: self.width,
            source_height: self.source_height,
            source_width: self.source_width,
            pad,
            depth: self.depth,
            columns: self.columns,
            source: self.source,
            zeros: self.zeros,
        }
    }

    /// Pointers to the source rows of `ROWS` consecutive pixels from `first`, tap by tap; past the end, to zeros.
    fn gather(&self, first: usize, pixels: usize, rows: &mut [*const T]) {
        let zeros = self.zeros.as_ptr();
        for i in 0..ROWS {
            let pixel = first + i;
            if pixel >= pixels {
                rows[i..].iter_mut().step_by(ROWS).for_each(|row| *row = zeros);
                continue;
            }
            let (x, y, n) = (pixel % self.width, pixel / self.width % self.height, pixel / (self.width * self.height));
            let columns = &self.col_sources[x * self.col_taps..][..self.col_taps];
            let mut slot = i;
            for row in &self.row_sources[y * self.row_taps..][..self.row_taps] {
                let base = row.map(|row| (n * self.source_height + row) * self.source_width);
                for column in columns {
                    rows[slot] = match (base, column) {
                        (Some(base), Some(column)) => self.source[(base + column) * self.depth..].as_ptr(),
                        _ => zeros,
                    };
                    slot += ROWS;
                }
            }
        }
    }

    /// Products with packed panels.
    pub fn wide(&self, packed: &[T], end: &Epilogue<T>, out: &mut [T]) {
        let (taps, n) = (self.row_taps * self.col_taps, self.columns);
        let pixels = out.len() / n;
        let panels = n.div_ceil(T::NR);
        let blocks = pixels.div_ceil(BLOCK);
        // Few blocks: let panels be tasks of their own too. Results do not depend on the cut.
        let panels_per_task = if blocks >= 16 { panels } else { 1 };
        let shared = Shared(out.as_mut_ptr());
        let cuts = panels.div_ceil(panels_per_task);
        (0..blocks * cuts).into_par_iter().for_each_init(
            || vec![std::ptr::null::<T>() as usize; BLOCK * taps],
            |table, task| {
                let first = task / cuts * BLOCK;
                let count = BLOCK.min(pixels - first);
                // SAFETY: a pointer has the size and alignment of a usize, and usize is Send where pointers are not.
                let table: &mut [*const T] =
                    unsafe { std::slice::from_raw_parts_mut(table.as_mut_ptr().cast(), table.len()) };
                for (group, rows) in table.chunks_exact_mut(ROWS * taps).enumerate().take(count.div_ceil(ROWS)) {
                    self.gather(first + group * ROWS, pixels, rows);
                }
                let mut tile = [T::ZERO; ROWS * 32];
                let first_panel = task % cuts * panels_per_task;
                for panel in first_panel..(first_panel + panels_per_task).min(panels) {
                    let values = &packed[panel * taps * self.depth * T::NR..][..taps * self.depth * T::NR];
                    let column = panel * T::NR;
                    let width = T::NR.min(n - column);
                    for (group, rows) in table.chunks_exact(ROWS * taps).enumerate().take(count.div_ceil(ROWS)) {
                        // SAFETY: `gather` points at `depth` values per row, within `source` or `zeros`.
                        unsafe {
                            T::rows_times_panel(taps, self.depth, rows.as_ptr(), values.as_ptr(), tile.as_mut_ptr());
                        }
                        let height = ROWS.min(count - group * ROWS);
                        for i in 0..height {
                            let from = &tile[i * T::NR..][..width];
                            let at = (first + group * ROWS + i) * n + column;
                            // SAFETY: within `out`; each pixel and panel belongs to one task.
                            let to = unsafe { std::slice::from_raw_parts_mut(shared.at(at), width) };
                            end.finish(from, to, column, at);
                        }
                    }
                }
            },
        );
    }

    /// Dot products, for very few output channels.
    pub fn narrow(&self, w: &[T], end: &Epilogue<T>, out: &mut [T]) {
        let (taps, n) = (self.row_taps * self.col_taps, self.columns);
        let pixels = out.len() / n;
        out.par_chunks_mut(BLOCK * n).enumerate().for_each(|(block, out)| {
            let mut rows = vec![std::ptr::null::<T>(); ROWS * taps];
            let mut slices: Vec<&[T]> = vec![&[]; taps];
            for (group, out) in out.chunks_mut(ROWS * n).enumerate() {
                self.gather(block * BLOCK + group * ROWS, pixels, &mut rows);
                for (i, out) in out.chunks_exact_mut(n).enumerate() {
                    for (slice, row) in slices.iter_mut().zip(rows.chunks_exact(ROWS)) {
                        // SAFETY: `gather` points at `depth` values per row, within `source` or `zeros`.
                        *slice = unsafe { std::slice::from_raw_parts(row[i], self.depth) };
                    }
                    let mut values = [T::ZERO; NARROW];
                    dot_taps(&slices, w, &mut values[..n]);
                    end.finish(&values[..n], out, 0, (block * BLOCK + group * ROWS + i) * n);
                }
            }
        });
    }
}

vectorized! {
    /// One pixel: a dot product per output channel.
    fn dot_taps<T: Scalar>(rows: &[&[T]], w: &[T], out: &mut [T]) {
        for (filter, out) in out.iter_mut().enumerate() {
            let mut sum = T::ZERO;
            for (tap, row) in rows.iter().enumerate() {
                sum += dot(row, &w[(filter * rows.len() + tap) * row.len()..][..row.len()]);
            }
            *out = sum;
        }
    }
}
