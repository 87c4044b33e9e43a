//! PNG files, decoded by the `png` crate within our limits.

use super::{ImageError, MAX_ALLOCATION, Picture, check_size};
use png::{ColorType, Decoder, DecodingError, Limits, Transformations};
use std::io::Cursor;

const FORMAT: &str = "PNG";

/// Decodes to grey or RGB, with a channel of opacity where there is transparency. Of an animation, the default image.
pub fn decode(bytes: &[u8]) -> Result<Picture, ImageError> {
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), Limits { bytes: MAX_ALLOCATION as usize });
    // Palettes and small depths to 8 bits, tRNS to alpha; of 16 bits the high byte, as libpng does for Pillow.
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    decoder.set_ignore_text_chunk(true);
    let header = decoder.read_header_info().map_err(explain)?;
    let stored_bits = header.color_type.samples() as u64 * u64::from(header.bit_depth as u8);
    check_size(header.width.into(), header.height.into(), 4, stored_bits, bytes)?;
    let mut reader = decoder.read_info().map_err(explain)?;
    let (colour, _) = reader.output_color_type();
    let samples = reader.output_buffer_size().ok_or_else(|| damaged("a size that overflows"))?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    let mut pixels = vec![0; samples];
    reader.next_frame(&mut pixels).map_err(explain)?;
    let channels = match colour {
        ColorType::Indexed => return Err(damaged("a palette image without its palette")),
        colour => colour.samples(),
    };
    if pixels.len() != width * height * channels {
        return Err(damaged("rows of unequal length"));
    }
    Ok(Picture { width, height, channels, pixels })
}

fn damaged(reason: impl Into<String>) -> ImageError {
    ImageError::Damaged { format: FORMAT, reason: reason.into() }
}

fn explain(error: DecodingError) -> ImageError {
    match error {
        DecodingError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            ImageError::Truncated { format: FORMAT }
        }
        DecodingError::LimitsExceeded => ImageError::Allocation { bytes: MAX_ALLOCATION + 1, limit: MAX_ALLOCATION },
        error => damaged(error.to_string()),
    }
}
