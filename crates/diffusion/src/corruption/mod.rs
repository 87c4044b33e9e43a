//! Corruptions: linear maps `C(level)` that start at the identity (Soft Diffusion, Eq. 4).
//!
//! A corruption turns a level into a [`LinearMap`], a small program of primitive maps with an adjoint. The level is the
//! corruption's own parameter (theta in section 3.3: the standard deviation of a blur, the erased part of a mask); how
//! it runs with time is the business of [`crate::path`] and [`crate::schedule`].
//!
//! A new corruption is one file, its levels, `at`, `derivative` and entry, and one line in [`CORRUPTIONS`].

mod blur;
mod boundary;
mod composed;
mod convolution;
mod cosine;
mod custom;
mod decolour;
mod emit;
mod fading;
mod heat;
mod map;
mod masking;
mod motion;
mod norm;
mod operator;
mod pixelation;
mod registry;
mod separable;
mod shrinking;

pub use blur::{Blur, half_support, paper_blur};
pub use boundary::{Boundary, convolution_matrix};
pub use composed::Composed;
pub use convolution::Kernel;
pub use cosine::{Coefficients, CosineFilter, CosineTransform};
pub use custom::Custom;
pub use decolour::{Decolourisation, Grey};
pub use emit::MapProgram;
pub use fading::{Fading, Unchanged};
pub use heat::{HeatDissipation, cosine_basis};
pub use map::{LinearMap, SharedMap};
pub use masking::{ErasureOrder, Masking};
pub use motion::{Direction, MotionBlur};
pub use norm::OperatorNorm;
pub use operator::{LinearOperator, SharedOperator};
pub use pixelation::Pixelation;
pub use registry::{CORRUPTIONS, CorruptionEntry, CorruptionParameter, CorruptionSpec, ParameterKind, ParameterValue};
pub use shrinking::{ShrinkFilter, Shrinking};

use crate::curve::{Curve, CurveError};
use crate::linalg::LinalgError;
use softdiff_engine::{Hint, HintedMessage};
use std::borrow::Cow;

/// Size of an image in memory order: rows, columns, channels, the channels of a pixel side by side (NHWC).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Shape {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// Values per pixel.
    pub channels: usize,
}

impl Shape {
    /// Rows, columns, channels.
    pub fn new(height: usize, width: usize, channels: usize) -> Self {
        Shape { height, width, channels }
    }

    /// Number of values of one image.
    pub fn len(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// True when an image has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of pixels of one image.
    pub fn pixels(&self) -> usize {
        self.height * self.width
    }

    /// How many images `values` hold.
    pub fn count<V>(&self, values: &[V]) -> Result<usize, CorruptionError> {
        if self.is_empty() || !values.len().is_multiple_of(self.len()) {
            return Err(CorruptionError::ImageSize { shape: *self, found: values.len() });
        }
        Ok(values.len() / self.len())
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}x{}", self.height, self.width, self.channels)
    }
}

/// The levels of a corruption: `clean` gives the identity, `full` the strongest corruption.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Levels {
    /// The level of the identity.
    pub clean: f64,
    /// The strongest level.
    pub full: f64,
}

impl Levels {
    /// The unit range.
    pub const UNIT: Levels = Levels { clean: 0.0, full: 1.0 };

    /// `level`, if it lies in the range.
    pub fn check(&self, name: &str, level: f64) -> Result<f64, CorruptionError> {
        if level >= self.clean && level <= self.full {
            Ok(level)
        } else {
            Err(CorruptionError::Level { name: name.to_owned(), level, clean: self.clean, full: self.full })
        }
    }
}

/// How levels are spread over a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Spacing {
    /// At equal distances.
    Even,
    /// `first`, then at equal ratios from `smallest` on: for levels in pixels, which act over orders of magnitude.
    Logarithmic {
        /// The first level; the identity.
        first: f64,
        /// The first level that does something.
        smallest: f64,
    },
}

/// A family of linear maps over a level, the identity at its start.
pub trait Corruption: Send + Sync {
    /// One word for files and messages.
    fn name(&self) -> &str;

    /// The parameters that, with the name, define the corruption.
    fn describe(&self) -> String {
        self.name().to_owned()
    }

    /// The images it acts on.
    fn shape(&self) -> Shape;

    /// From identity to strongest.
    fn levels(&self) -> Levels;

    /// The map C(level).
    fn at(&self, level: f64) -> Result<LinearMap, CorruptionError>;

    /// The map dC/dlevel (at a corner, the one to the right).
    fn derivative(&self, level: f64) -> Result<LinearMap, CorruptionError>;

    /// How candidate levels are best spread over the range.
    fn spacing(&self) -> Spacing {
        Spacing::Even
    }

    /// Where the corruption is a hard mask: per pixel the level from which on it is erased. Training compares it with the
    /// level, because a table over time, linear between its rows, would blend two masks.
    fn erased_at(&self) -> Option<&[f64]> {
        None
    }

    /// The corruptions it is made of, one after the other, each with its level over this one's.
    fn parts(&self) -> &[(Box<dyn Corruption>, Curve)] {
        &[]
    }

    /// Whether C is linear in the level, so that distances are differences of levels.
    fn is_straight(&self) -> bool {
        false
    }

    /// A bound of the operator norm over all levels; one unless stated.
    fn norm_bound(&self) -> f64 {
        1.0
    }
}

/// What can be wrong with a corruption or its input.
#[derive(Debug, thiserror::Error)]
pub enum CorruptionError {
    /// A level outside the corruption's range, or NaN.
    #[error("level {level} of '{name}' is outside its range")]
    Level {
        /// Name of the corruption.
        name: String,
        /// The level given.
        level: f64,
        /// Smallest level.
        clean: f64,
        /// Largest level.
        full: f64,
    },
    /// A parameter that makes no sense.
    #[error("{parameter} of '{name}' is {value}")]
    Parameter {
        /// Name of the corruption.
        name: &'static str,
        /// Name of the parameter.
        parameter: &'static str,
        /// What was given.
        value: f64,
        /// What to give instead.
        remedy: &'static str,
    },
    /// Values that do not make whole images.
    #[error("{found} values do not make whole {shape} images")]
    ImageSize {
        /// Shape of one image.
        shape: Shape,
        /// Values given.
        found: usize,
    },
    /// A map made for another image size.
    #[error("a {part} of size {found} does not fit images of {shape}")]
    MapSize {
        /// Which primitive map.
        part: &'static str,
        /// Its size.
        found: String,
        /// The size that fits.
        expected: String,
        /// The images.
        shape: Shape,
    },
    /// A name that is not in the registry.
    #[error("there is no corruption '{name}'")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        hint: String,
    },
    /// A composition without parts.
    #[error("a composition needs at least one corruption")]
    NothingToCompose,
    /// A composition of corruptions of different image sizes.
    #[error("'{name}' works on images of {found}, the composition on {shape}")]
    ComposedShape {
        /// Name of the part.
        name: String,
        /// Its shape.
        found: Shape,
        /// Shape of the first part.
        shape: Shape,
    },
    /// A level curve that leaves its corruption's range or does not start clean.
    #[error("the level curve of '{name}' runs from {from} to {to}")]
    ComposedCurve {
        /// Name of the part.
        name: String,
        /// Where the curve starts.
        from: f64,
        /// Where it ends.
        to: f64,
        /// Where it must start.
        clean: f64,
        /// Where it must end at the latest.
        full: f64,
    },
    /// Maps of different kinds where one structure is needed.
    #[error("a map is a {first} at one time and a {second} at another")]
    Structures {
        /// One kind.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A file that holds no usable map.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: HintedMessage,
    },
    /// Levels of a composition's part that cannot be had.
    #[error("the levels of '{name}': {problem}")]
    PartLevels {
        /// Name of the part.
        name: String,
        /// What is wrong with them.
        problem: HintedMessage,
    },
    /// A bad level curve.
    #[error(transparent)]
    Curve(#[from] CurveError),
    /// A bad matrix.
    #[error(transparent)]
    Matrix(#[from] LinalgError),
}

impl Hint for CorruptionError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            CorruptionError::Level { clean, full, .. } => format!("give a level from {clean} to {full}").into(),
            CorruptionError::Parameter { remedy, .. } => (*remedy).into(),
            CorruptionError::ImageSize { shape, .. } => format!("give a multiple of {}", shape.len()).into(),
            CorruptionError::MapSize { expected, .. } => format!("it must be {expected}").into(),
            CorruptionError::Unknown { hint, .. } => hint.into(),
            CorruptionError::NothingToCompose => return None,
            CorruptionError::ComposedShape { .. } => "make all parts for one shape".into(),
            CorruptionError::ComposedCurve { clean, full, .. } => {
                format!("it must start at {clean} and end by {full}").into()
            }
            CorruptionError::Structures { .. } => "use one kind at all times, or dense matrices".into(),
            CorruptionError::File { problem, .. } | CorruptionError::PartLevels { problem, .. } => {
                return problem.hint();
            }
            CorruptionError::Curve(error) => return error.hint(),
            CorruptionError::Matrix(error) => return error.hint(),
        })
    }
}
