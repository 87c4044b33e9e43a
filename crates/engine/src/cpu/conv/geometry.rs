//! The sizes of a convolution, and what scratch memory it needs.

use super::weight::WeightPlan;
use crate::cpu::tile::Tiles;
use crate::cpu::winograd;

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
    pub(super) fn sources(&self) -> Vec<Option<usize>> {
        let at = |o: usize, tap: usize| (o * self.stride + tap).checked_sub(self.pad).filter(|&i| i < self.input);
        (0..self.output).flat_map(|o| (0..self.taps).map(move |tap| at(o, tap))).collect()
    }

    /// For each input coordinate and tap, the output coordinate that reads it, or `None`.
    pub(super) fn destinations(&self) -> Vec<Option<usize>> {
        let at = |i: usize, tap| {
            let shifted = (i + self.pad).checked_sub(tap)?;
            (shifted % self.stride == 0 && shifted / self.stride < self.output).then_some(shifted / self.stride)
        };
        (0..self.input).flat_map(|i| (0..self.taps).map(move |tap| at(i, tap))).collect()
    }

    /// Output coordinates whose source under `tap` is inside the input.
    pub(super) fn valid(&self, tap: usize) -> std::ops::Range<usize> {
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

impl Geometry {
    pub(super) fn taps(&self) -> usize {
        self.rows.taps * self.cols.taps
    }

    /// Scratch elements of [`super::forward`], for the wider of the panels.
    pub fn forward_scratch(&self) -> usize {
        self.walk_scratch(self.channels, self.filters)
    }

    /// Scratch elements of [`super::input_gradient`], for the wider of the panels.
    pub fn input_gradient_scratch(&self) -> usize {
        self.walk_scratch(self.filters, self.channels)
    }

    /// A row of zeros, packed weights, and their transform.
    fn walk_scratch(&self, depth: usize, columns: usize) -> usize {
        let values = if self.is_winograd() { self.taps() + winograd::POSITIONS } else { self.taps() };
        (columns.div_ceil(f32::NR) * f32::NR * values + 1) * depth
    }

    /// Whether Winograd's transform serves this convolution.
    pub(super) fn is_winograd(&self) -> bool {
        let square = |axis: &Axis| axis.taps == 3 && axis.stride == 1 && axis.pad <= 2;
        square(&self.rows) && square(&self.cols) && winograd::pays(self.channels, self.filters)
    }

    /// Scratch elements of [`super::weight_gradient`], for either panel.
    pub fn weight_gradient_scratch(&self) -> usize {
        let size = |nr| {
            let plan = WeightPlan::new(self, nr);
            plan.groups * plan.partial
        };
        size(f32::NR).max(size(f64::NR))
    }
}
