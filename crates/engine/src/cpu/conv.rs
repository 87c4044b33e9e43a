//! Convolution kernels on NHWC, without im2col: each output pixel reads its source pixels through row pointers.
//!
//! Forward and input gradient are the same walk: for every tap a destination coordinate has at most one source
//! coordinate ([`Axis`]); where it has none, the row pointer goes to a row of zeros. The weight gradient sums outer
//! products of source and output pixels in a fixed order, so that no result depends on the number of threads.
#![allow(unsafe_code)]

use super::gemm::dot;
use super::simd::vectorized;
use super::tile::{ROWS, Segment, Tiles};
use super::winograd::{self, Winograd};
use crate::Scalar;
use rayon::prelude::*;

/// One spatial dimension: size, kernel, stride and padding.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Input size.
    pub input: usize,
    /// Output size.
    pub output: usize,
    /// Kernel taps.
    pub taps: usize,
    /// Stride.
    pub stride: usize,
    /// Zero padding on either side.
    pub pad: usize,
}

impl Axis {
    /// For each output coordinate and tap, the input coordinate, or `None` in the padding.
    fn sources(&self) -> Vec<Option<usize>> {
        let at = |o: usize, tap: usize| (o * self.stride + tap).checked_sub(self.pad).filter(|&i| i < self.input);
        (0..self.output).flat_map(|o| (0..self.taps).map(move |tap| at(o, tap))).collect()
    }

    /// For each input coordinate and tap, the output coordinate that reads it, or `None`.
    fn destinations(&self) -> Vec<Option<usize>> {
        let at = |i: usize, tap| {
            let shifted = (i + self.pad).checked_sub(tap)?;
            (shifted % self.stride == 0 && shifted / self.stride < self.output).then_some(shifted / self.stride)
        };
        (0..self.input).flat_map(|i| (0..self.taps).map(move |tap| at(i, tap))).collect()
    }

    /// Output coordinates whose source under `tap` is inside the input.
    fn valid(&self, tap: usize) -> std::ops::Range<usize> {
        let first = self.pad.saturating_sub(tap).div_ceil(self.stride);
        let end = (self.input + self.pad).saturating_sub(tap).div_ceil(self.stride).min(self.output);
        first..end.max(first)
    }
}

/// A two-dimensional convolution of `batch` images.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// Number of images.
    pub batch: usize,
    /// Vertical dimension.
    pub rows: Axis,
    /// Horizontal dimension.
    pub cols: Axis,
    /// Input channels.
    pub channels: usize,
    /// Output channels.
    pub filters: usize,
}

/// Output channels up to which plain dot products beat a padded panel.
const NARROW: usize = 4;

impl Geometry {
    fn taps(&self) -> usize {
        self.rows.taps * self.cols.taps
    }

    /// Scratch elements of [`forward`], for the wider of the panels.
    pub fn forward_scratch(&self) -> usize {
        self.walk_scratch(self.channels, self.filters)
    }

    /// Scratch elements of [`input_gradient`], for the wider of the panels.
    pub fn input_gradient_scratch(&self) -> usize {
        self.walk_scratch(self.filters, self.channels)
    }

    /// A row of zeros, packed weights, and their transform.
    fn walk_scratch(&self, depth: usize, columns: usize) -> usize {
        let values = if self.is_winograd() { self.taps() + winograd::POSITIONS } else { self.taps() };
        (columns.div_ceil(f32::NR) * f32::NR * values + 1) * depth
    }

    /// Whether Winograd's transform serves this convolution.
    fn is_winograd(&self) -> bool {
        let square = |axis: &Axis| axis.taps == 3 && axis.stride == 1 && axis.pad <= 2;
        square(&self.rows) && square(&self.cols) && winograd::pays(self.channels, self.filters)
    }

    /// Scratch elements of [`weight_gradient`], for either panel.
    pub fn weight_gradient_scratch(&self) -> usize {
        let size = |nr| {
            let plan = WeightPlan::new(self, nr);
            plan.groups * plan.partial
        };
        size(f32::NR).max(size(f64::NR))
    }
}

/// Lets tasks write disjoint parts of one output.
pub(super) struct Shared<T>(pub *mut T);
// SAFETY: used only for writes to disjoint elements, see each use.
unsafe impl<T: Send> Sync for Shared<T> {}
impl<T> Shared<T> {
    pub fn at(&self, offset: usize) -> *mut T {
        self.0.wrapping_add(offset)
    }
}

/// What is done to each output: `scale (value + bias + residual)`.
pub struct Epilogue<'a, T> {
    /// One value per output channel.
    pub bias: Option<&'a [T]>,
    /// One value per output.
    pub residual: Option<&'a [T]>,
    /// Last of all.
    pub scale: T,
}

impl<T: Scalar> Epilogue<'_, T> {
    const NONE: Self = Epilogue { bias: None, residual: None, scale: T::ONE };

    /// Finishes `values` into `to`, which begin at channel `column` and at output `at`.
    pub(super) fn finish(&self, values: &[T], to: &mut [T], column: usize, at: usize) {
        match self.bias {
            Some(bias) => {
                let bias = &bias[column..column + to.len()];
                to.iter_mut().zip(values.iter().zip(bias)).for_each(|(to, (&v, &b))| *to = v + b);
            }
            None => to.copy_from_slice(values),
        }
        if let Some(residual) = self.residual {
            let residual = &residual[at..at + to.len()];
            to.iter_mut().zip(residual).for_each(|(to, &r)| *to += r);
        }
        if self.scale != T::ONE {
            to.iter_mut().for_each(|to| *to *= self.scale);
        }
    }
}

/// `out[n, y, x, :] = sum over taps of x[n, y', x', :] w[:, tap, :]`, finished by `end`; weights are
/// `[filters, taps, channels]`.
pub fn forward<T: Scalar>(g: &Geometry, x: &[T], w: &[T], end: &Epilogue<T>, out: &mut [T], scratch: &mut [T]) {
    let (taps, c, k) = (g.taps(), g.channels, g.filters);
    let (zeros, packed) = scratch.split_at_mut(c);
    zeros.fill(T::ZERO);
    let walk = Walk {
        height: g.rows.output,
        width: g.cols.output,
        row_sources: g.rows.sources(),
        col_sources: g.cols.sources(),
        row_taps: g.rows.taps,
        col_taps: g.cols.taps,
        source_height: g.rows.input,
        source_width: g.cols.input,
        source: x,
        zeros,
        depth: c,
        columns: k,
    };
    if k <= NARROW {
        return walk.narrow(w, end, out);
    }
    let (packed, rest) = packed.split_at_mut(k.div_ceil(T::NR) * T::NR * taps * c);
    packed.par_chunks_exact_mut(taps * c * T::NR).enumerate().for_each(|(panel, chunk)| {
        for j in 0..T::NR {
            let filter = panel * T::NR + j;
            if filter < k {
                let from = &w[filter * taps * c..][..taps * c];
                chunk[j..].iter_mut().step_by(T::NR).zip(from).for_each(|(to, &from)| *to = from);
            } else {
                chunk[j..].iter_mut().step_by(T::NR).for_each(|to| *to = T::ZERO);
            }
        }
    });
    if g.is_winograd() {
        winograd::transform_weights(packed, c, false, rest);
        return walk.winograd(g.batch, [g.rows.pad, g.cols.pad]).run(rest, end, out);
    }
    walk.wide(packed, end, out);
}

/// `scale` times the adjoint of [`forward`] in `x`: `dx` from `dy`.
pub fn input_gradient<T: Scalar>(g: &Geometry, dy: &[T], w: &[T], scale: T, dx: &mut [T], scratch: &mut [T]) {
    let (taps, c, k) = (g.taps(), g.channels, g.filters);
    let (zeros, packed) = scratch.split_at_mut(k);
    zeros.fill(T::ZERO);
    let (packed, rest) = packed.split_at_mut(c.div_ceil(T::NR) * T::NR * taps * k);
    packed.par_chunks_exact_mut(taps * k * T::NR).enumerate().for_each(|(panel, chunk)| {
        let first = panel * T::NR;
        let width = T::NR.min(c - first);
        for (index, row) in chunk.chunks_exact_mut(T::NR).enumerate() {
            let (tap, filter) = (index / k, index % k);
            let from = (filter * taps + tap) * c + first;
            row[..width].iter_mut().zip(&w[from..from + width]).for_each(|(row, &w)| *row = scale * w);
            row[width..].fill(T::ZERO);
        }
    });
    let walk = Walk {
        height: g.rows.input,
        width: g.cols.input,
        row_sources: g.rows.destinations(),
        col_sources: g.cols.destinations(),
        row_taps: g.rows.taps,
        col_taps: g.cols.taps,
        source_height: g.rows.output,
        source_width: g.cols.output,
        source: dy,
        zeros,
        depth: k,
        columns: c,
    };
    if g.is_winograd() {
        // The adjoint of a 3x3 convolution is one with the kernel turned and what is left of a padding of 2.
        winograd::transform_weights(packed, k, true, rest);
        return walk.winograd(g.batch, [2 - g.rows.pad, 2 - g.cols.pad]).run(rest, &Epilogue::NONE, dx);
    }
    walk.wide(packed, &Epilogue::NONE, dx);
}

/// Destination pixels, each gathering one source row per tap.
struct Walk<'a, T> {
    height: usize,
    width: usize,
    row_sources: Vec<Option<usize>>,
    col_sources: Vec<Option<usize>>,
    row_taps: usize,
    col_taps: usize,
    source_height: usize,
    source_width: usize,
    source: &'a [T],
    zeros: &'a [T],
    depth: usize,
    columns: usize,
}

/// Destination pixels of one task: small enough that their sources stay in the second-level cache.
const BLOCK: usize = 64;

impl<T: Scalar> Walk<'_, T> {
    /// The same walk by tiles of 2x2.
    fn winograd(&self, batch: usize, pad: [usize; 2]) -> Winograd<'_, T> {
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
    fn wide(&self, packed: &[T], end: &Epilogue<T>, out: &mut [T]) {
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
    fn narrow(&self, w: &[T], end: &Epilogue<T>, out: &mut [T]) {
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

/// How the weight gradient is cut: depends on shapes only.
struct WeightPlan {
    /// Whether panels run over input channels (else over filters).
    lanes_are_channels: bool,
    /// Values per step on the broadcast side.
    broadcast: usize,
    /// Values per step on the panel side.
    lanes: usize,
    /// Groups of images with a partial sum each.
    groups: usize,
    /// Elements of one partial sum: tap by panel by block of 8 rows, each a tile.
    partial: usize,
}

impl WeightPlan {
    fn new(g: &Geometry, nr: usize) -> WeightPlan {
        let cost = |lanes: usize, rows: usize| lanes.div_ceil(nr) * nr * rows;
        let lanes_are_channels = cost(g.channels, g.filters) < cost(g.filters, g.channels);
        let (lanes, broadcast) = if lanes_are_channels { (g.channels, g.filters) } else { (g.filters, g.channels) };
        let partial = g.taps() * lanes.div_ceil(nr) * nr * broadcast.div_ceil(ROWS) * ROWS;
        // At most 16 groups, fewer when the partial sums would take more than 64 MiB of f32.
        let groups = (16_777_216 / partial).clamp(1, 16).min(g.batch);
        WeightPlan { lanes_are_channels, broadcast, lanes, groups, partial }
    }
}

/// `scale` times the adjoint of [`forward`] in `w`: `dw` (`[filters, taps, channels]`) from `x` and `dy`.
pub fn weight_gradient<T: Scalar>(g: &Geometry, x: &[T], dy: &[T], scale: T, dw: &mut [T], scratch: &mut [T]) {
    let plan = WeightPlan::new(g, T::NR);
    let taps = g.taps();
    let per_tap = plan.partial / taps;
    let images = g.batch.div_ceil(plan.groups);
    // Enough groups: one task does all taps of a group and finds its pixels in the cache. Few: taps are tasks.
    let taps_per_task = if plan.groups >= 8 { taps } else { 1 };
    let partials = &mut scratch[..plan.groups * plan.partial];
    partials.par_chunks_mut(taps_per_task * per_tap).enumerate().for_each(|(task, partial)| {
        let tasks_per_group = taps.div_ceil(taps_per_task);
        let group = task / tasks_per_group;
        let first_tap = task % tasks_per_group * taps_per_task;
        partial.fill(T::ZERO);
        let images = group * images..((group + 1) * images).min(g.batch);
        accumulate(g, &plan, x, dy, images, first_tap, partial);
    });
    let (total, others) = partials.split_at_mut(plan.partial);
    for other in others.chunks_exact(plan.partial) {
        total.par_chunks_mut(16_384).zip(other.par_chunks(16_384)).for_each(|(total, other)| {
            total.iter_mut().zip(other).for_each(|(total, &other)| *total += other);
        });
    }
    let total = &*total;
    let blocks = plan.broadcast.div_ceil(ROWS);
    dw.par_chunks_mut(taps * g.channels).enumerate().for_each(|(filter, dw)| {
        for (index, dw) in dw.iter_mut().enumerate() {
            let (tap, channel) = (index / g.channels, index % g.channels);
            let (lane, row) = if plan.lanes_are_channels { (channel, filter) } else { (filter, channel) };
            let tile = (lane / T::NR * blocks + row / ROWS) * ROWS + row % ROWS;
            *dw = scale * total[tap * per_tap + tile * T::NR + lane % T::NR];
        }
    });
}

/// Adds the outer products of `images` to the tiles of the taps from `first_tap` on.
fn accumulate<T: Scalar>(
    g: &Geometry,
    plan: &WeightPlan,
    x: &[T],
    dy: &[T],
    images: std::ops::Range<usize>,
    first_tap: usize,
    partial: &mut [T],
) {
    let (h, w, oh, ow) = (g.rows.input, g.cols.input, g.rows.output, g.cols.output);
    let (c, k) = (g.channels, g.filters);
    let per_tap = plan.partial / g.taps();
    let blocks = plan.broadcast.div_ceil(ROWS);
    // Some 256 pixels at a time: the packed panel and its source rows fit the first- and second-level caches.
    let rows_per_chunk = (256 / ow).clamp(1, oh);
    let mut panels = Vec::new();
    let mut segments = Vec::with_capacity(rows_per_chunk);
    for image in images {
        for first_row in (0..oh).step_by(rows_per_chunk) {
            let chunk_rows = first_row..(first_row + rows_per_chunk).min(oh);
            // Pack the panel side of this chunk, padded to whole panels.
            let packed_rows = if plan.lanes_are_channels {
                let first = (chunk_rows.start * g.rows.stride).saturating_sub(g.rows.pad);
                let end = (chunk_rows.end - 1) * g.rows.stride + g.rows.taps;
                first.min(h)..end.saturating_sub(g.rows.pad).clamp(first.min(h), h)
            } else {
                chunk_rows.clone()
            };
            let (source, height, width) = if plan.lanes_are_channels { (x, h, w) } else { (dy, oh, ow) };
            let from = (image * height + packed_rows.start) * width * plan.lanes;
            let pixels = packed_rows.len() * width;
            pack_lanes(&source[from..from + pixels * plan.lanes], plan.lanes, &mut panels);
            for (local_tap, tiles) in partial.chunks_exact_mut(per_tap).enumerate() {
                let (r, s) = ((first_tap + local_tap) / g.cols.taps, (first_tap + local_tap) % g.cols.taps);
                let valid_rows = g.rows.valid(r);
                let valid_cols = g.cols.valid(s);
                if valid_cols.is_empty() {
                    continue;
                }
                for (panel, tiles) in tiles.chunks_exact_mut(blocks * ROWS * T::NR).enumerate() {
                    let lanes = &panels[panel * pixels * T::NR..][..pixels * T::NR];
                    segments.clear();
                    for oy in chunk_rows.start.max(valid_rows.start)..chunk_rows.end.min(valid_rows.end) {
                        let iy = oy * g.rows.stride + r - g.rows.pad;
                        let ix = valid_cols.start * g.cols.stride + s - g.cols.pad;
                        let source = ((image * h + iy) * w + ix) * c;
                        let output = ((image * oh + oy) * ow + valid_cols.start) * k;
                        segments.push(if plan.lanes_are_channels {
                            Segment {
                                a: dy[output..].as_ptr(),
                                a_stride: k,
                                b: lanes[((iy - packed_rows.start) * w + ix) * T::NR..].as_ptr(),
                                b_stride: g.cols.stride * T::NR,
                                count: valid_cols.len(),
                            }
                        } else {
                            Segment {
                                a: x[source..].as_ptr(),
                                a_stride: g.cols.stride * c,
                                b: lanes[((oy - packed_rows.start) * ow + valid_cols.start) * T::NR..].as_ptr(),
                                b_stride: T::NR,
                                count: valid_cols.len(),
                            }
                        });
                    }
                    for (block, tile) in tiles.chunks_exact_mut(ROWS * T::NR).enumerate() {
                        let m = ROWS.min(plan.broadcast - block * ROWS);
                        // SAFETY: segments stay within the rows of `x`, `dy` and `panels` they begin in; `m` values
                        // from the block's first channel on are the last ones of a pixel at most.
                        unsafe { T::outer_products(m, &segments, tile.as_mut_ptr()) };
                        for segment in &mut segments {
                            segment.a = segment.a.wrapping_add(ROWS);
                        }
                    }
                }
            }
        }
    }
}

/// `[pixels, lanes]` to panels of `[pixels, NR]`, padded with zeros.
fn pack_lanes<T: Scalar>(source: &[T], lanes: usize, panels: &mut Vec<T>) {
    let pixels = source.len() / lanes;
    let count = lanes.div_ceil(T::NR);
    panels.resize(count * pixels * T::NR, T::ZERO);
    for (panel, chunk) in panels.chunks_exact_mut(pixels.max(1) * T::NR).enumerate() {
        let first = panel * T::NR;
        let width = T::NR.min(lanes - first);
        for (row, source) in chunk.chunks_exact_mut(T::NR).zip(source.chunks_exact(lanes)) {
            row[..width].copy_from_slice(&source[first..first + width]);
            row[width..].fill(T::ZERO);
        }
    }
}
