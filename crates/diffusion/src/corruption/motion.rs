//! Motion blur along one axis.

use super::registry::{BOUNDARY, CorruptionEntry, CorruptionParameter, ParameterKind};
use super::{Boundary, Corruption, CorruptionError, Levels, LinearMap, Shape, Spacing, convolution_matrix};
use crate::linalg::Matrix;

pub(super) const ENTRY: CorruptionEntry = CorruptionEntry {
    name: MotionBlur::NAME,
    about: "motion blur along one axis",
    parameters: &[
        CorruptionParameter {
            key: "largest",
            kind: ParameterKind::Pixels,
            about: "longest motion in pixels; \"auto\": half the side",
        },
        CorruptionParameter {
            key: "direction",
            kind: ParameterKind::Word(&["horizontal", "vertical"]),
            about: "the axis of the motion",
        },
        BOUNDARY,
    ],
    erases: false,
    corrupts: true,
    build: |spec, shape| {
        let longest = spec.pixels("largest").unwrap_or(shape.height.max(shape.width) as f64 / 2.0);
        let direction = if spec.word("direction") == "vertical" { Direction::Vertical } else { Direction::Horizontal };
        Ok(Box::new(MotionBlur::new(shape, direction, spec.boundary().unwrap_or_default(), longest)?))
    },
};

/// The axis of a motion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Along the rows.
    Horizontal,
    /// Along the columns.
    Vertical,
}

/// The average over all shifts up to level / 2 pixels to either side, shifts between pixels interpolated linearly. The
/// level is the length of the motion in pixels.
///
/// Tap a is `1/l * integral of tent(a + s) for s in -l/2..l/2`, so it is the identity at length 0 and differentiable in
/// the length. Motion along other directions is not separable: give it as a dense [`super::Custom`] matrix.
#[derive(Debug, Clone)]
pub struct MotionBlur {
    shape: Shape,
    direction: Direction,
    boundary: Boundary,
    longest: f64,
}

impl MotionBlur {
    const NAME: &'static str = "motion";

    /// Motion of length 0 to `longest`.
    pub fn new(shape: Shape, direction: Direction, boundary: Boundary, longest: f64) -> Result<Self, CorruptionError> {
        if !(longest > 0.0 && longest.is_finite()) {
            return Err(CorruptionError::Parameter {
                name: Self::NAME,
                parameter: "the longest motion",
                value: longest,
                remedy: "give a positive number of pixels, such as half the image's side",
            });
        }
        Ok(MotionBlur { shape, direction, boundary, longest })
    }

    /// Taps and their derivative by the length.
    fn taps(&self, length: f64) -> (Vec<f64>, Vec<f64>) {
        let half = (self.longest / 2.0).ceil() as i64 + 1;
        let offsets = (-half..=half).map(|a| a as f64);
        if length == 0.0 {
            // Limits for short lengths: 1 - l/4 in the middle, l/8 beside it.
            let delta = offsets.clone().map(tent);
            let slope = offsets.map(|a| [-0.25, 0.125, 0.0][(a.abs() as usize).min(2)]);
            return (delta.collect(), slope.collect());
        }
        let tap = |a: f64| (tent_integral(a + length / 2.0) - tent_integral(a - length / 2.0)) / length;
        let slope = |a: f64| (0.5 * (tent(a + length / 2.0) + tent(a - length / 2.0)) - tap(a)) / length;
        (offsets.clone().map(tap).collect(), offsets.map(slope).collect())
    }

    fn along_axis(&self, taps: &[f64]) -> LinearMap {
        let (height, width) = (self.shape.height, self.shape.width);
        match self.direction {
            Direction::Horizontal => LinearMap::Separable {
                rows: Matrix::identity(height),
                cols: convolution_matrix(taps, width, self.boundary),
            },
            Direction::Vertical => LinearMap::Separable {
                rows: convolution_matrix(taps, height, self.boundary),
                cols: Matrix::identity(width),
            },
        }
    }
}

/// max(0, 1 - |x|).
fn tent(x: f64) -> f64 {
    (1.0 - x.abs()).max(0.0)
}

/// The integral of the tent up to x.
fn tent_integral(x: f64) -> f64 {
    let x = x.clamp(-1.0, 1.0);
    if x < 0.0 { 0.5 * (1.0 + x).powi(2) } else { 1.0 - 0.5 * (1.0 - x).powi(2) }
}

impl Corruption for MotionBlur {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn describe(&self) -> String {
        format!("motion(direction={:?}, boundary={:?}, longest={})", self.direction, self.boundary, self.longest)
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn levels(&self) -> Levels {
        Levels { clean: 0.0, full: self.longest }
    }

    fn spacing(&self) -> Spacing {
        Spacing::Logarithmic { first: 0.0, smallest: 0.05 }
    }

    fn at(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        let length = self.levels().check(self.name(), level)?;
        Ok(self.along_axis(&self.taps(length).0))
    }

    fn derivative(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        let length = self.levels().check(self.name(), level)?;
        Ok(self.along_axis(&self.taps(length).1))
    }
}
