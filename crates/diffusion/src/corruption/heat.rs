//! Heat dissipation in the cosine basis: the blur of IHDM and of blurring diffusion.

use super::blur::{LARGEST, paper_blur};
use super::registry::{CorruptionEntry, CorruptionParameter, ParameterKind};
use super::{Corruption, CorruptionError, Levels, LinearMap, Shape, Spacing};
use crate::linalg::Matrix;
use std::f64::consts::PI;

pub(super) const ENTRY: CorruptionEntry = CorruptionEntry {
    name: HeatDissipation::NAME,
    about: "heat dissipation, the blur of IHDM",
    parameters: &[
        LARGEST,
        CorruptionParameter {
            key: "floor",
            kind: ParameterKind::Fraction,
            about: "least gain of a frequency, from 0 to below 1",
        },
    ],
    erases: false,
    corrupts: true,
    build: |spec, shape| {
        let largest = spec.pixels("largest").unwrap_or_else(|| paper_blur(shape));
        Ok(Box::new(HeatDissipation::new(shape, largest)?.with_floor(spec.fraction("floor"))?))
    },
};

/// The orthonormal cosine basis (DCT-II): row k is basis function k.
pub fn cosine_basis(n: usize) -> Matrix {
    let size = n as f64;
    Matrix::from_fn(n, n, |k, i| {
        let scale = if k == 0 { (1.0 / size).sqrt() } else { (2.0 / size).sqrt() };
        scale * (PI * k as f64 * (i as f64 + 0.5) / size).cos()
    })
}

/// The heat equation with insulated borders, run to blur deviation s (Rissanen et al. 2022, IHDM): frequency (k, l) is
/// multiplied by `d + (1 - d) exp(-s^2/2 pi^2 (k^2/h^2 + l^2/w^2))`. The level is s in pixels.
///
/// With floor d = 0 (IHDM) the map is separable and levels add up in squares. Hoogeboom and Salimans (2022) use
/// d = 0.001, so that no frequency vanishes.
#[derive(Debug, Clone)]
pub struct HeatDissipation {
    shape: Shape,
    largest: f64,
    floor: f64,
}

impl HeatDissipation {
    const NAME: &'static str = "heat";

    /// Dissipation up to the blur deviation `largest`, without floor.
    pub fn new(shape: Shape, largest: f64) -> Result<Self, CorruptionError> {
        if !(largest > 0.0 && largest.is_finite()) {
            return Err(CorruptionError::Parameter {
                name: Self::NAME,
                parameter: "the largest deviation",
                value: largest,
                remedy: "give a positive number of pixels, such as 20",
            });
        }
        Ok(HeatDissipation { shape, largest, floor: 0.0 })
    }

    /// The same with every gain raised to at least `floor`, in [0, 1).
    pub fn with_floor(self, floor: f64) -> Result<Self, CorruptionError> {
        if !(0.0..1.0).contains(&floor) {
            return Err(CorruptionError::Parameter {
                name: Self::NAME,
                parameter: "the floor",
                value: floor,
                remedy: "give a value from 0 to below 1, such as 0.001",
            });
        }
        Ok(HeatDissipation { floor, ..self })
    }

    /// Decay rates of the frequencies along one side, in units of s^2.
    fn rates(n: usize) -> Vec<f64> {
        (0..n).map(|k| 0.5 * (PI * k as f64 / n as f64).powi(2)).collect()
    }

    /// `D^T diag(exp(-s^2 rate)) D`.
    fn diffusion(n: usize, deviation: f64) -> Matrix {
        let basis = cosine_basis(n);
        let gains: Vec<f64> = Self::rates(n).iter().map(|rate| (-deviation * deviation * rate).exp()).collect();
        basis.transposed_times(&Matrix::from_fn(n, n, |k, i| gains[k] * basis[(k, i)]))
    }

    /// The two-dimensional map with gains made by `gain(rate)`.
    fn spectral(&self, gain: impl Fn(f64) -> f64) -> LinearMap {
        let (vertical, horizontal) = (Self::rates(self.shape.height), Self::rates(self.shape.width));
        let gains = vertical.iter().flat_map(|v| horizontal.iter().map(|h| gain(v + h)).collect::<Vec<_>>()).collect();
        LinearMap::Spectral { rows: cosine_basis(self.shape.height), cols: cosine_basis(self.shape.width), gains }
    }
}

impl Corruption for HeatDissipation {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn describe(&self) -> String {
        format!("heat(largest={}, floor={})", self.largest, self.floor)
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn levels(&self) -> Levels {
        Levels { clean: 0.0, full: self.largest }
    }

    fn spacing(&self) -> Spacing {
        Spacing::Logarithmic { first: 0.0, smallest: 0.05 }
    }

    fn at(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        let s = self.levels().check(self.name(), level)?;
        if self.floor > 0.0 {
            return Ok(self.spectral(|rate| self.floor + (1.0 - self.floor) * (-s * s * rate).exp()));
        }
        let Shape { height, width, .. } = self.shape;
        let rows = Self::diffusion(height, s);
        let cols = if width == height { rows.clone() } else { Self::diffusion(width, s) };
        Ok(LinearMap::Separable { rows, cols })
    }

    fn derivative(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        let s = self.levels().check(self.name(), level)?;
        Ok(self.spectral(|rate| (1.0 - self.floor) * -2.0 * s * rate * (-s * s * rate).exp()))
    }
}
