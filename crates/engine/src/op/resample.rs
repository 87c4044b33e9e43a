//! Linear resampling, the same for every image and channel: FIR up and down, average pooling, bilinear resize.
//!
//! Each is a pair of sparse one-dimensional maps ([`Taps`]), vertical and horizontal; its adjoint is the pair of
//! transposes.

use super::{Call, Operation, expect_dims, expect_inputs, only};
use crate::cpu::simd::vectorized;
use crate::error::Result;
use crate::{Graph, Node, Scalar, TensorShape, Var};
use rayon::prelude::*;
use std::sync::Arc;

/// A sparse map from `input` to `rows.len()` coordinates: each output is a sum of (input coordinate, weight).
#[derive(Clone, Debug, PartialEq)]
pub struct Taps {
    pub(crate) input: usize,
    pub(crate) rows: Vec<Vec<(usize, f64)>>,
}

/// Where the pixel centres of a resized image lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Pixels are areas: centre i at (i + 1/2) / size (PyTorch's default).
    HalfPixel,
    /// Pixel i at i / size (TensorFlow 1's default).
    Corner,
}

impl Taps {
    /// `out[o] = sum_i in[i] taps[i * up - o * down + offset]`.
    pub fn fir(input: usize, output: usize, taps: &[f64], up: usize, down: usize, offset: usize) -> Taps {
        let row = |o: usize| {
            let tap = |i: usize| (i * up + offset).checked_sub(o * down).and_then(|at| taps.get(at));
            (0..input).filter_map(|i| tap(i).map(|&weight| (i, weight))).collect()
        };
        Taps { input, rows: (0..output).map(row).collect() }
    }

    /// The mean over windows; windows that reach into the padding divide by their full size or by what is inside.
    pub fn average(input: usize, kernel: usize, stride: usize, pad: usize, count_padding: bool) -> Taps {
        let row = |o: usize| {
            let inside: Vec<usize> =
                (o * stride..o * stride + kernel).filter_map(|p| p.checked_sub(pad)).filter(|&i| i < input).collect();
            let weight = 1.0 / if count_padding { kernel } else { inside.len().max(1) } as f64;
            inside.into_iter().map(|i| (i, weight)).collect()
        };
        Taps { input, rows: (0..(input + 2 * pad).saturating_sub(kernel) / stride.max(1) + 1).map(row).collect() }
    }

    /// Linear interpolation to `output` points, without antialiasing.
    pub fn linear(input: usize, output: usize, align: Align) -> Taps {
        let ratio = input as f64 / output as f64;
        let row = |o: usize| {
            let at = match align {
                Align::HalfPixel => ((o as f64 + 0.5) * ratio - 0.5).max(0.0),
                Align::Corner => o as f64 * ratio,
            };
            let low = (at.floor() as usize).min(input - 1);
            let fraction = at - low as f64;
            if low + 1 < input && fraction > 0.0 {
                vec![(low, 1.0 - fraction), (low + 1, fraction)]
            } else {
                vec![(low, 1.0)]
            }
        };
        Taps { input, rows: (0..output).map(row).collect() }
    }

    /// Every coordinate to itself.
    pub fn identity(size: usize) -> Taps {
        Taps { input: size, rows: (0..size).map(|i| vec![(i, 1.0)]).collect() }
    }

    /// Every coordinate to its mirror image.
    pub fn reversed(size: usize) -> Taps {
        Taps { input: size, rows: (0..size).rev().map(|i| vec![(i, 1.0)]).collect() }
    }

    /// The adjoint.
    pub fn transposed(&self) -> Taps {
        let mut rows = vec![Vec::new(); self.input];
        for (o, row) in self.rows.iter().enumerate() {
            for &(i, weight) in row {
                rows[i].push((o, weight));
            }
        }
        Taps { input: self.rows.len(), rows }
    }
}

/// Vertical and horizontal taps applied to every image and channel of `[n, h, w, c]`.
#[derive(Clone, Debug)]
pub struct Resample {
    pub(crate) vertical: Arc<Taps>,
    pub(crate) horizontal: Arc<Taps>,
}

impl Graph {
    /// Applies one sparse map to the rows and one to the columns of every image.
    pub fn resample(&mut self, x: Var, vertical: Taps, horizontal: Taps) -> Result<Var> {
        self.apply1(Resample { vertical: vertical.into(), horizontal: horizontal.into() }, &[x])
    }

    fn resample_both(&mut self, x: Var, taps: impl Fn(usize) -> Taps) -> Result<Var> {
        let (height, width) = match self.shape(x)[..] {
            [_, h, w, _] => (h, w),
            // The shape rule explains what is wrong.
            _ => (1, 1),
        };
        self.resample(x, taps(height), taps(width))
    }

    /// Half the size, after smoothing with `taps` (four of them, normalised to sum 1).
    pub fn fir_down(&mut self, x: Var, taps: [f64; 4]) -> Result<Var> {
        let taps = normalised(taps, 1.0);
        self.resample_both(x, |size| Taps::fir(size, size / 2, &taps, 1, 2, 1))
    }

    /// Twice the size, smoothed with `taps` (four of them, normalised to sum 2).
    pub fn fir_up(&mut self, x: Var, taps: [f64; 4]) -> Result<Var> {
        let taps = normalised(taps, 2.0);
        self.resample_both(x, |size| Taps::fir(size, size * 2, &taps, 2, 1, 2))
    }

    /// Smooths with `taps` and keeps every pixel and one more, as a strided 3x3 convolution without padding wants it.
    pub fn fir_smooth(&mut self, x: Var, taps: [f64; 4]) -> Result<Var> {
        let taps = normalised(taps, 1.0);
        self.resample_both(x, |size| Taps::fir(size, size + 1, &taps, 1, 1, 2))
    }

    /// Average pooling.
    pub fn average_pool(
        &mut self,
        x: Var,
        kernel: usize,
        stride: usize,
        pad: usize,
        count_padding: bool,
    ) -> Result<Var> {
        self.resample_both(x, |size| Taps::average(size, kernel, stride, pad, count_padding))
    }

    /// Bilinear resize without antialiasing.
    pub fn resize_bilinear(&mut self, x: Var, height: usize, width: usize, align: Align) -> Result<Var> {
        let (h, w) = match self.shape(x)[..] {
            [_, h, w, _] => (h, w),
            _ => (1, 1),
        };
        self.resample(x, Taps::linear(h, height, align), Taps::linear(w, width, align))
    }
}

fn normalised(taps: [f64; 4], sum: f64) -> [f64; 4] {
    let total: f64 = taps.iter().sum();
    taps.map(|tap| tap * sum / total)
}

impl Operation for Resample {
    const NAME: &'static str = "resample";

    fn shapes(&self, inputs: &[&TensorShape]) -> Result<Vec<TensorShape>, String> {
        let [x] = expect_inputs(inputs)?;
        let [n, h, w, c] = expect_dims("the image", &x)?;
        if (h, w) != (self.vertical.input, self.horizontal.input) {
            let (th, tw) = (self.vertical.input, self.horizontal.input);
            return Err(format!("the taps are for {th} x {tw} pixels, the image has {h} x {w}"));
        }
        Ok(vec![[n, self.vertical.rows.len(), self.horizontal.rows.len(), c].into()])
    }

    fn gradient(&self, g: &mut Graph, _: &Node, dy: &[Option<Var>], _: &[bool]) -> Result<Vec<Option<Var>>> {
        let adjoint = g.resample(only(dy)?, self.vertical.transposed(), self.horizontal.transposed())?;
        Ok(vec![Some(adjoint)])
    }

    fn run<T: Scalar>(&self, call: &mut Call<T>) {
        let [_, h, w, c] = call.input_shapes[0].dims().expect("shapes were checked at building time");
        let x = call.inputs[0];
        let (rows, columns) = (self.vertical.rows.len(), self.horizontal.rows.len());
        call.outputs[0].par_chunks_mut(columns * c).enumerate().for_each(|(row, out)| {
            let (n, y) = (row / rows, row % rows);
            let image = &x[n * h * w * c..(n + 1) * h * w * c];
            let mut sources = Vec::new();
            for (out, taps) in out.chunks_exact_mut(c).zip(&self.horizontal.rows) {
                sources.clear();
                for &(iy, a) in &self.vertical.rows[y] {
                    sources.extend(taps.iter().map(|&(ix, b)| ((iy * w + ix) * c, T::from_f64(a * b))));
                }
                weighted_sum(image, &sources, out);
            }
        });
    }
}

vectorized! {
    fn weighted_sum<T: Scalar>(x: &[T], sources: &[(usize, T)], out: &mut [T]) {
        out.fill(T::ZERO);
        for &(at, weight) in sources {
            let x = &x[at..at + out.len()];
            for (out, &x) in out.iter_mut().zip(x) {
                *out += weight * x;
            }
        }
    }
}
