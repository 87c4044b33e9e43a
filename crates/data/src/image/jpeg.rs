//! JPEG files, decoded by `softdiff-jpeg`: the pixels of libjpeg-turbo, bit for bit.

use super::chunks::jpeg_segments;
use super::{ImageError, MAX_ALLOCATION, MAX_EXPANSION, MAX_SIDE, Picture, check_memory};
use softdiff_jpeg::{JpegError, JpegImage, JpegLimits};

const FORMAT: &str = "JPEG";

/// Decodes to grey or RGB.
pub fn decode(bytes: &[u8]) -> Result<Picture, ImageError> {
    // What is beyond the limits is refused by the decoder, whatever the memory.
    if let Some(samples) = samples(bytes).filter(|&samples| samples <= MAX_ALLOCATION) {
        check_memory(samples.min(bytes.len() as u64 * MAX_EXPANSION), || "a JPEG image".into())?;
    }
    let limits = JpegLimits { max_side: MAX_SIDE as u64, max_bytes: MAX_ALLOCATION };
    let JpegImage { width, height, channels, pixels } = softdiff_jpeg::decode(bytes, limits).map_err(explain)?;
    Ok(Picture { width, height, channels, pixels })
}

/// Samples by the first frame header: width times height times components.
fn samples(bytes: &[u8]) -> Option<u64> {
    let is_frame = |marker: u8| matches!(marker, 0xC0..=0xCF) && !matches!(marker, 0xC4 | 0xC8 | 0xCC);
    let (_, body) = jpeg_segments(bytes).find(|(marker, _)| is_frame(*marker))?;
    let &[_, a, b, c, d, components, ..] = body else { return None };
    let side = |high, low| u64::from(u16::from_be_bytes([high, low]));
    Some(side(c, d) * side(a, b) * u64::from(components))
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
