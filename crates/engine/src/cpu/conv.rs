//! Convolution kernels on NHWC, without im2col: each output pixel reads its source pixels through row pointers.
//!
//! Forward and input gradient are the same walk: for every tap a destination coordinate has at most one source
//! coordinate ([`Axis`]); where it has none, the row pointer goes to a row of zeros. The weight gradient sums outer
//! products of source and output pixels in a fixed order, so that no result depends on the number of threads.
#![allow(unsafe_code)]

mod geometry;
mod walk;
mod weight;

pub use geometry::{Axis, Geometry};
pub use weight::weight_gradient;

use super::winograd;
use crate::Scalar;
use rayon::prelude::*;
use walk::{NARROW, Walk};

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
