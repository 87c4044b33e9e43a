//! Why an image was refused.

use crate::quote::quote;
use softdiff_engine::memory::NotEnoughMemory;
use std::borrow::Cow;
use thiserror::Error;

/// An image that cannot be decoded.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The fields are named as the messages use them.
pub enum ImageError {
    /// The first bytes are of no known format.
    #[error("not a PNG, JPEG, WebP, GIF, TIFF, BMP or PNM image: it begins with {start}")]
    Unknown { start: String },
    /// A format that exists but is not read.
    #[error("{format} images are not read: convert them to PNG or JPEG")]
    Format { format: &'static str },
    /// A rare kind of a known format.
    #[error("{format}: {what} is not supported: convert the image to 8-bit PNG or JPEG")]
    Unsupported { format: &'static str, what: Cow<'static, str> },
    /// No pixels.
    #[error("the image is {width} x {height}: it has no pixels")]
    Empty { width: u64, height: u64 },
    /// Too wide or too high.
    #[error("the image is {width} x {height}, more than the limit of {limit} a side")]
    Side { width: u64, height: u64, limit: u64 },
    /// Too much memory.
    #[error("decoding needs {bytes} bytes at once, more than the limit of {limit}")]
    Allocation { bytes: u64, limit: u64 },
    /// More pixels than the file can hold.
    #[error("the image claims {width} x {height} pixels, more than a file of {file} bytes can hold")]
    Claims { width: u64, height: u64, file: u64 },
    /// It does not fit into the memory that is left.
    #[error("{0}")]
    Memory(#[from] NotEnoughMemory),
    /// The file ends too soon.
    #[error("{format}: the file is cut off")]
    Truncated { format: &'static str },
    /// The content makes no sense.
    #[error("{format}: the file is damaged: {reason}")]
    Damaged { format: &'static str, reason: String },
}

impl ImageError {
    /// The refusal of bytes of no known format; names the well-known ones.
    pub(super) fn unknown(bytes: &[u8]) -> ImageError {
        let format = match bytes {
            [_, _, _, _, b'f', b't', b'y', b'p', b'a', b'v', b'i', ..] => "AVIF",
            [_, _, _, _, b'f', b't', b'y', b'p', b'h', b'e', ..] => "HEIC",
            [0xFF, 0x0A, ..] | [0, 0, 0, 12, b'J', b'X', b'L', b' ', ..] => "JPEG XL",
            [0, 0, 0, 12, b'j', b'P', b' ', b' ', ..] | [0xFF, 0x4F, 0xFF, 0x51, ..] => "JPEG 2000",
            [] => return ImageError::Unknown { start: "nothing: the file is empty".into() },
            _ => {
                let start = bytes.get(..bytes.len().min(8)).unwrap_or_default();
                return ImageError::Unknown { start: quote(&String::from_utf8_lossy(start)) };
            }
        };
        ImageError::Format { format }
    }
}
