//! Images in memory and in files: what the commands read and write.

mod cifar;
mod png;
mod pnm;
mod strip;

pub use cifar::read_cifar10;
pub use png::encode_png;
pub use pnm::read_pnm;
pub use strip::strip;

use crate::corruption::Shape;

/// An image of values in [0, 1], channels of a pixel side by side.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// Its size.
    pub shape: Shape,
    /// Its values.
    pub values: Vec<f64>,
}

impl Image {
    /// The values as bytes, rounded, what lies outside [0, 1] cut off.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.values.iter().map(|v| (v.clamp(0.0, 1.0) * 255.0).round() as u8).collect()
    }
}

/// What is wrong with an image file.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A file that cannot be read as what it should be.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// An image that cannot be written as PNG.
    #[error("an image of {shape} with {bytes} bytes cannot be written; give 1 or 3 channels and a byte for each value")]
    Unwritable {
        /// Its shape.
        shape: Shape,
        /// Bytes given.
        bytes: usize,
    },
    /// Images that do not fit into one strip.
    #[error("images of {first} and {other} do not fit into one strip; make them equally large")]
    Mixed {
        /// Shape of the first.
        first: Shape,
        /// Another shape.
        other: Shape,
    },
    /// Nothing to show.
    #[error("a strip needs at least one image")]
    Empty,
}

impl ImageError {
    fn file(path: &std::path::Path, problem: impl std::fmt::Display) -> Self {
        ImageError::File { path: path.display().to_string(), problem: problem.to_string() }
    }
}
