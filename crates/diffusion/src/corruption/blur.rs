//! Gaussian blur with a fixed support and a growing standard deviation.

use super::registry::{BOUNDARY, CorruptionEntry, CorruptionParameter, ParameterKind};
use super::{Boundary, Corruption, CorruptionError, Levels, LinearMap, Shape, Spacing, convolution_matrix};
use crate::linalg::Matrix;

pub(super) const ENTRY: CorruptionEntry = CorruptionEntry {
    name: Blur::NAME,
    about: "Gaussian blur, the paper's",
    parameters: &[LARGEST, BOUNDARY],
    erases: false,
    corrupts: true,
    build: |spec, shape| {
        let largest = spec.pixels("largest").unwrap_or_else(|| paper_blur(shape));
        Ok(Box::new(Blur::new(shape, spec.boundary().unwrap_or_default(), largest)?))
    },
};

/// The strongest blur of [`Blur`] and [`super::HeatDissipation`].
pub(super) const LARGEST: CorruptionParameter = CorruptionParameter {
    key: "largest",
    kind: ParameterKind::Pixels,
    about: "strongest blur in pixels; \"auto\": the paper's 18 for 32x32 and 23 for 64x64, in proportion for other sizes",
};

/// The paper's strongest blur (appendix, "Blur parameters"): 18 pixels for 32x32 and 23 for 64x64, in proportion for
/// other sizes.
pub fn paper_blur(shape: Shape) -> f64 {
    let side = shape.height.max(shape.width);
    if side <= 32 { 18.0 * side as f64 / 32.0 } else { 23.0 * side as f64 / 64.0 }
}

/// Half the support of the paper's kernel: 32 taps to each side for 32x32 (65x65 kernels), 80 for 64x64 (161x161).
///
/// The paper names these two only. Continued here as the longer side up to 32, and 5/4 of it beyond.
pub fn half_support(shape: Shape) -> usize {
    let side = shape.height.max(shape.width);
    if side <= 32 { side } else { side * 5 / 4 }
}

/// Gaussian blur (Soft Diffusion, appendix "Blur parameters"): `C X = G X G^T`; the level is the standard deviation in
/// pixels.
///
/// The kernel is normalised over all its taps, also those that fall outside the image, so that with
/// [`Boundary::Zero`] energy is lost at the border.
#[derive(Debug, Clone)]
pub struct Blur {
    shape: Shape,
    boundary: Boundary,
    half_support: usize,
    largest: f64,
}

impl Blur {
    const NAME: &'static str = "blur";
    /// exp(-1 / 2 s^2) is zero in f64 below s = 0.025: the blur is the identity to the last bit.
    const IDENTITY_UP_TO: f64 = 0.02;

    /// A blur of deviation 0 to `largest`, with the paper's support.
    pub fn new(shape: Shape, boundary: Boundary, largest: f64) -> Result<Self, CorruptionError> {
        if !(largest > 0.0 && largest.is_finite()) {
            return Err(CorruptionError::Parameter {
                name: Self::NAME,
                parameter: "the largest deviation",
                value: largest,
                remedy: "give a positive number of pixels, such as 18 for 32x32",
            });
        }
        Ok(Blur { shape, boundary, half_support: half_support(shape), largest })
    }

    /// The same with another half support.
    pub fn with_half_support(self, half_support: usize) -> Self {
        Blur { half_support, ..self }
    }

    /// The taps of the one-dimensional kernel and their derivative by the deviation.
    fn taps(&self, deviation: f64) -> (Vec<f64>, Vec<f64>) {
        let half = self.half_support as i64;
        let squares: Vec<f64> = (-half..=half).map(|a| (a * a) as f64).collect();
        if deviation <= Self::IDENTITY_UP_TO {
            let delta = squares.iter().map(|&s| if s == 0.0 { 1.0 } else { 0.0 }).collect();
            return (delta, vec![0.0; squares.len()]);
        }
        let raw: Vec<f64> = squares.iter().map(|s| (-s / (2.0 * deviation * deviation)).exp()).collect();
        let total: f64 = raw.iter().sum();
        let taps: Vec<f64> = raw.iter().map(|r| r / total).collect();
        // d/ds of exp(-a^2 / 2 s^2) / sum: g (a^2 - E a^2) / s^3.
        let mean: f64 = taps.iter().zip(&squares).map(|(g, s)| g * s).sum();
        let slopes = taps.iter().zip(&squares).map(|(g, s)| g * (s - mean) / deviation.powi(3));
        let slopes = slopes.collect();
        (taps, slopes)
    }

    fn matrices(&self, taps: &[f64]) -> (Matrix, Matrix) {
        let rows = convolution_matrix(taps, self.shape.height, self.boundary);
        let cols = convolution_matrix(taps, self.shape.width, self.boundary);
        (rows, cols)
    }
}

impl Corruption for Blur {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn describe(&self) -> String {
        let boundary = self.boundary.name();
        format!("blur(boundary={boundary}, half_support={}, largest={})", self.half_support, self.largest)
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn levels(&self) -> Levels {
        Levels { clean: 0.0, full: self.largest }
    }

    /// The paper's range begins at 0.01 (appendix, "Blur parameters"), and below 0.05 nothing is blurred.
    fn spacing(&self) -> Spacing {
        Spacing::Logarithmic { first: 0.01, smallest: 0.05 }
    }

    fn at(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        let deviation = self.levels().check(self.name(), level)?;
        let (rows, cols) = self.matrices(&self.taps(deviation).0);
        Ok(LinearMap::Separable { rows, cols })
    }

    fn derivative(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        let deviation = self.levels().check(self.name(), level)?;
        let (taps, slopes) = self.taps(deviation);
        let ((rows, cols), (rows_dot, cols_dot)) = (self.matrices(&taps), self.matrices(&slopes));
        Ok(LinearMap::separable_derivative(rows, cols, rows_dot, cols_dot))
    }
}
