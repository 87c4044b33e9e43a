//! JPEG files, decoded by `softdiff-jpeg`: the pixels of libjpeg-turbo, bit for bit.

use super::{ImageError, MAX_ALLOCATION, MAX_SIDE, Picture};
use softdiff_jpeg::{JpegError, JpegImage, JpegLimits};

const FORMAT: &str = "JPEG";

/// Decodes to grey or RGB.
pub fn decode(bytes: &[u8]) -> Result<Picture, ImageError> {
    let limits = JpegLimits { max_side: MAX_SIDE as u64, max_bytes: MAX_ALLOCATION };
    let JpegImage { width, height, channels, pixels } = softdiff_jpeg::decode(bytes, limits).map_err(explain)?;
    Ok(Picture { width, height, channels, pixels })
}

fn explain(error: JpegError) -> ImageError {
    match error {
        JpegError::Truncated => ImageError::Truncated { format: FORMAT },
        JpegError::Damaged { reason } => ImageError::Damaged { format: FORMAT, reason },
        JpegError::Unsupported { what } => ImageError::Unsupported { format: FORMAT, what: what.into() },
        JpegError::Empty { width, height } => ImageError::Empty { width, height },
        JpegError::Side { width, height, limit } => ImageError::Side { width, height, limit },
        JpegError::Allocation { bytes, limit } => ImageError::Allocation { bytes, limit },
        JpegError::Claims { width, height, file } => ImageError::Claims { width, height, file },
        error => ImageError::Damaged { format: FORMAT, reason: error.to_string() },
    }
}
