//! Dense linear algebra in f64: what corruptions, distances and priors need, and no more.
//!
//! Decompositions are faer's, on one thread; products are the engine's, split by output and never by summation. So every
//! result is independent of the number of threads.

mod cholesky;
mod eigen;
mod matrix;
mod multiply;
mod pivoted;
mod qr;
mod singular;

pub use cholesky::Cholesky;
pub use eigen::{SymmetricEigen, symmetric_eigenvalues};
pub use matrix::Matrix;
pub use pivoted::pivoted_factor;
pub use qr::triangular_factor;
pub use singular::singular_values;

pub use matrix::{dot, norm, squared_distance};
pub(crate) use multiply::{Strided, multiply_into};

use softdiff_engine::Hint;
use std::borrow::Cow;

/// What can be wrong with a matrix handed to this module.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LinalgError {
    /// The data does not fill the stated shape.
    #[error("{found} values cannot fill a {rows} x {cols} matrix")]
    Shape {
        /// Rows asked for.
        rows: usize,
        /// Columns asked for.
        cols: usize,
        /// Values given.
        found: usize,
    },
    /// A square matrix is needed.
    #[error("the matrix is {rows} x {cols}, but {purpose} needs a square one")]
    NotSquare {
        /// What was attempted.
        purpose: &'static str,
        /// Rows given.
        rows: usize,
        /// Columns given.
        cols: usize,
    },
    /// NaN or infinity among the entries.
    #[error("entry ({row}, {col}) is {value}")]
    NotFinite {
        /// Row of the entry.
        row: usize,
        /// Column of the entry.
        col: usize,
        /// The entry.
        value: f64,
    },
    /// Cholesky met a pivot that is not positive.
    #[error("the matrix is not positive definite (pivot {pivot} is not positive)")]
    NotPositiveDefinite {
        /// Index of the pivot.
        pivot: usize,
    },
    /// The iteration for eigenvalues or singular values did not settle.
    #[error("the eigenvalues or singular values did not converge")]
    NoConvergence,
}

impl Hint for LinalgError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            LinalgError::Shape { rows, cols, .. } => format!("give exactly {} values", rows * cols).into(),
            LinalgError::NotFinite { .. } => "every entry must be finite".into(),
            LinalgError::NotPositiveDefinite { .. } => "add a small value to its diagonal".into(),
            LinalgError::NoConvergence => "are the entries of wildly different scale?".into(),
            _ => return None,
        })
    }
}
