//! The weight gradient.

use super::Geometry;
use crate::Scalar;
use crate::cpu::tile::{ROWS, Segment};
use rayon::prelude::*;

/// How the weight gradient is cut: depends on shapes only.
pub(super) struct WeightPlan {
    /// Whether panels run over input channels (else over filters).
    pub lanes_are_channels: bool,
    /// Values per step on the broadcast side.
    pub broadcast: usize,
    /// Values per step on the panel side.
    pub lanes: usize,
    /// Groups of images with a partial sum each.
    pub groups: usize,
    /// Elements of one partial sum: tap by panel by block of 8 rows, each a tile.
    pub partial: usize,
}

impl WeightPlan {
    pub fn new(g: &Geometry, nr: usize) -> WeightPlan {
        let cost = |lanes: usize, rows: usize| lanes.div_ceil(nr) * nr * rows;
        let lanes_are_channels = cost(g.channels, g.filters) < cost(g.filters, g.channels);
        let (lanes, broadcast) = if lanes_are_channels { (g.channels, g.filters) } else { (g.filters, g.channels) };
        let partial = g.taps() * lanes.div_ceil(nr) * nr * broadcast.div_ceil(ROWS) * ROWS;
        // At most 16 groups, fewer when the partial sums would take more than 64 MiB of f32.
        let groups = (16_777_216 / partial).clamp(1, 16).min(g.batch);
        WeightPlan { lanes_are_channels, broadcast, lanes, groups, partial }
    }
}

/// `scale` times the adjoint of [`super::forward`] in `w`: `dw` (`[filters, taps, channels]`) from `x` and `dy`.
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
