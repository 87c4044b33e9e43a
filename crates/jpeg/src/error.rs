//! Why an image was refused.

use std::fmt;

/// A JPEG file that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)] // The fields are named as the messages use them.
pub enum JpegError {
    /// The file ends too soon.
    Truncated,
    /// The content makes no sense.
    Damaged { reason: String },
    /// A kind of JPEG that is not decoded.
    Unsupported { what: &'static str },
    /// No pixels.
    Empty { width: u64, height: u64 },
    /// Too wide or too high.
    Side { width: u64, height: u64, limit: u64 },
    /// Too much memory.
    Allocation { bytes: u64, limit: u64 },
    /// More pixels than the file can hold.
    Claims { width: u64, height: u64, file: u64 },
}

impl fmt::Display for JpegError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JpegError::Truncated => f.write_str("the file is cut off"),
            JpegError::Damaged { reason } => write!(f, "the file is damaged: {reason}"),
            JpegError::Unsupported { what } => write!(f, "{what} is not supported"),
            JpegError::Empty { width, height } => write!(f, "{width} x {height}: no pixels"),
            JpegError::Side { width, height, limit } => {
                write!(f, "{width} x {height}, more than the limit of {limit} a side")
            }
            JpegError::Allocation { bytes, limit } => {
                write!(f, "decoding needs {bytes} bytes at once, more than the limit of {limit}")
            }
            JpegError::Claims { width, height, file } => {
                write!(f, "{width} x {height} pixels, more than a file of {file} bytes can hold")
            }
        }
    }
}

impl std::error::Error for JpegError {}
