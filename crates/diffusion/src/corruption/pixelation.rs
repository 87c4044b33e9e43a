//! Pixelation: averages over ever larger blocks, that is, downsampling seen at full size.

use super::registry::CorruptionEntry;
use super::{Corruption, CorruptionError, Levels, LinearMap, Shape};
use crate::linalg::Matrix;

pub(super) const ENTRY: CorruptionEntry = CorruptionEntry {
    name: "pixelation",
    about: "averages over ever larger blocks: downsampling",
    parameters: &[],
    erases: false,
    corrupts: true,
    build: |_, shape| Ok(Box::new(Pixelation::new(shape))),
};

/// Averages over blocks of side 2^level; between whole levels the two one-dimensional averages are mixed linearly.
///
/// At whole levels the map is the orthogonal projection onto images constant on blocks, which is what average-pooling
/// down and repeating up gives; blocks at the far edge may be smaller. The last level is one block.
#[derive(Debug, Clone)]
pub struct Pixelation {
    shape: Shape,
}

impl Pixelation {
    /// Pixelation of images of `shape`, down to a single colour.
    pub fn new(shape: Shape) -> Self {
        Pixelation { shape }
    }

    /// The n x n averaging matrix and its derivative by the level.
    fn average(n: usize, level: f64) -> (Matrix, Matrix) {
        let whole = level.floor();
        let (fine, coarse) = (block_average(n, whole as u32), block_average(n, whole as u32 + 1));
        let part = level - whole;
        (fine.combined(1.0 - part, &coarse, part), coarse.combined(1.0, &fine, -1.0))
    }
}

fn block_average(n: usize, exponent: u32) -> Matrix {
    let side = 1usize.checked_shl(exponent).unwrap_or(usize::MAX).min(n.next_power_of_two());
    let size = |block: usize| side.min(n - block * side) as f64;
    Matrix::from_fn(n, n, |i, j| if i / side == j / side { 1.0 / size(i / side) } else { 0.0 })
}

impl Corruption for Pixelation {
    fn name(&self) -> &str {
        "pixelation"
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn levels(&self) -> Levels {
        let side = self.shape.height.max(self.shape.width).max(2);
        Levels { clean: 0.0, full: f64::from(side.next_power_of_two().trailing_zeros()) }
    }

    fn at(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        let level = self.levels().check(self.name(), level)?;
        let rows = Self::average(self.shape.height, level).0;
        Ok(LinearMap::Separable { rows, cols: Self::average(self.shape.width, level).0 })
    }

    fn derivative(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        let level = self.levels().check(self.name(), level)?;
        let (rows, rows_dot) = Self::average(self.shape.height, level);
        let (cols, cols_dot) = Self::average(self.shape.width, level);
        Ok(LinearMap::separable_derivative(rows, cols, rows_dot, cols_dot))
    }
}
