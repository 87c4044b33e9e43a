//! Distances between clouds of points, which stand for corrupted distributions (the metric M of Soft Diffusion, section
//! 3.3).
//!
//! Points are rows of a [`Matrix`]; all weights are equal; costs are squared Euclidean distances, so values are squares
//! of distances (W2^2). Every result says how far it can be trusted: see [`Estimate`].

mod assignment;
mod bures;
mod cost;
mod divergence;
mod mmd;
mod newton;
mod paired;
mod relaxation;
mod sinkhorn;
mod sliced;

pub use assignment::{Assignment, assignment, exact};
pub use bures::bures;
pub use cost::squared_distances;
pub use divergence::{Divergence, self_transport, sinkhorn_divergence};
pub use mmd::{Bandwidth, mmd};
pub use paired::paired;
pub use sinkhorn::{Sinkhorn, SinkhornOptions, sinkhorn};
pub use sliced::sliced;
pub use sliced::sliced_images;

use crate::linalg::{LinalgError, Matrix};
use softdiff_engine::Hint;
use std::borrow::Cow;

/// A number and how it was reached.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Estimate {
    /// The value, a squared distance unless stated.
    pub value: f64,
    /// Whether the method reached its tolerance.
    pub converged: bool,
    /// Iterations, augmentations or directions used.
    pub iterations: usize,
    /// What the method knows of its own error: see each method.
    pub error: f64,
}

impl Estimate {
    /// The distance itself: the root of the value, or zero for a value rounded below it.
    pub fn distance(&self) -> f64 {
        self.value.max(0.0).sqrt()
    }
}

/// What can be wrong with clouds or options.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TransportError {
    /// A cloud without points, or points without coordinates.
    #[error("a cloud of {points} points in {dimensions} dimensions cannot be compared")]
    Empty {
        /// Points.
        points: usize,
        /// Coordinates per point.
        dimensions: usize,
    },
    /// Clouds in different spaces.
    #[error("one cloud has {left} coordinates per point, the other {right}")]
    Dimensions {
        /// Coordinates of the first.
        left: usize,
        /// Coordinates of the second.
        right: usize,
    },
    /// Clouds of different size where points are matched one to one.
    #[error("one cloud has {left} points, the other {right}")]
    Counts {
        /// The method.
        method: &'static str,
        /// Points of the first.
        left: usize,
        /// Points of the second.
        right: usize,
    },
    /// NaN or infinity.
    #[error("point {point} has coordinate {value} at place {coordinate}")]
    NotFinite {
        /// Which point.
        point: usize,
        /// Which coordinate.
        coordinate: usize,
        /// Its value.
        value: f64,
    },
    /// An option out of its range.
    #[error("{option} is {value}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// Its value.
        value: f64,
        /// What to give.
        remedy: &'static str,
    },
    /// A decomposition failed.
    #[error(transparent)]
    Linalg(#[from] LinalgError),
}

impl Hint for TransportError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            TransportError::Empty { .. } => "give at least one of each".into(),
            TransportError::Dimensions { .. } => "compare points of one space".into(),
            TransportError::Counts { method, .. } => {
                format!("{method} matches one to one, so give equally many").into()
            }
            TransportError::NotFinite { .. } => "remove or repair it".into(),
            TransportError::Option { remedy, .. } => (*remedy).into(),
            TransportError::Linalg(error) => return error.hint(),
        })
    }
}

/// Refuses clouds that cannot be compared.
fn check_clouds(x: &Matrix, y: &Matrix) -> Result<(), TransportError> {
    for cloud in [x, y] {
        let (points, dimensions) = (cloud.rows(), cloud.cols());
        if points == 0 || dimensions == 0 {
            return Err(TransportError::Empty { points, dimensions });
        }
        if let Some(at) = cloud.values().iter().position(|v| !v.is_finite()) {
            let (point, coordinate) = (at / dimensions, at % dimensions);
            return Err(TransportError::NotFinite { point, coordinate, value: cloud.values()[at] });
        }
    }
    if x.cols() != y.cols() {
        return Err(TransportError::Dimensions { left: x.cols(), right: y.cols() });
    }
    Ok(())
}

/// Refuses clouds that cannot be matched one to one.
fn check_matched(method: &'static str, x: &Matrix, y: &Matrix) -> Result<(), TransportError> {
    check_clouds(x, y)?;
    if x.rows() != y.rows() {
        return Err(TransportError::Counts { method, left: x.rows(), right: y.rows() });
    }
    Ok(())
}
