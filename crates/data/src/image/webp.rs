//! WebP files, decoded by the `image-webp` crate within our limits.

use super::{ImageError, MAX_ALLOCATION, Picture, check_size};
use image_webp::{DecodingError, WebPDecoder};
use std::io::Cursor;

const FORMAT: &str = "WebP";

/// Decodes to RGB, with a fourth channel of opacity where there is transparency. Of an animation, the first image.
pub fn decode(bytes: &[u8]) -> Result<Picture, ImageError> {
    let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(explain)?;
    decoder.set_memory_limit(MAX_ALLOCATION as usize);
    let (width, height) = decoder.dimensions();
    // A flat WebP can be smaller than any ratio; one that flat teaches nothing, so it counts as a bomb.
    check_size(width.into(), height.into(), 4, 32, bytes)?;
    let samples = decoder
        .output_buffer_size()
        .ok_or(ImageError::Damaged { format: FORMAT, reason: "a size that overflows".into() })?;
    let mut pixels = vec![0; samples];
    decoder.read_image(&mut pixels).map_err(explain)?;
    let channels = if decoder.has_alpha() { 4 } else { 3 };
    Ok(Picture { width: width as usize, height: height as usize, channels, pixels })
}

fn explain(error: DecodingError) -> ImageError {
    match error {
        DecodingError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            ImageError::Truncated { format: FORMAT }
        }
        DecodingError::MemoryLimitExceeded => {
            ImageError::Allocation { bytes: MAX_ALLOCATION + 1, limit: MAX_ALLOCATION }
        }
        error => ImageError::Damaged { format: FORMAT, reason: error.to_string() },
    }
}
