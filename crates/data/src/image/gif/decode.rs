//! The first picture of a GIF, decoded by the `gif` crate within our limits.

use crate::image::{ImageError, MAX_ALLOCATION, Picture, check_size};
use gif::{ColorOutput, DecodeOptions, DecodingError, MemoryLimit};
use std::num::NonZeroU64;

const FORMAT: &str = "GIF";

/// Decodes to RGB, or to grey if the palette is grey. What is transparent, or not covered by the first image, is white.
pub fn decode(bytes: &[u8]) -> Result<Picture, ImageError> {
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::Indexed);
    options.check_frame_consistency(true);
    options.set_memory_limit(MemoryLimit::Bytes(NonZeroU64::new(MAX_ALLOCATION).expect("it is not zero")));
    let mut decoder = options.read_info(bytes).map_err(explain)?;
    let (width, height) = (usize::from(decoder.width()), usize::from(decoder.height()));
    // LZW packs up to 2730 pixels into a byte, 2.5 times what deflate does.
    check_size(width as u64, height as u64, 3, 3, bytes)?;
    let global = decoder.global_palette().map(<[u8]>::to_vec);
    let frame = decoder.read_next_frame().map_err(explain)?.ok_or_else(|| damaged("no image"))?;
    let palette = frame.palette.as_ref().or(global.as_ref()).ok_or_else(|| damaged("no palette"))?.as_chunks::<3>().0;
    let channels = if palette.iter().all(|[red, green, blue]| red == green && green == blue) { 1 } else { 3 };
    let mut pixels = vec![255; width * height * channels];
    let row = usize::from(frame.width).max(1);
    for (y, indices) in frame.buffer.chunks_exact(row).enumerate() {
        let start = ((usize::from(frame.top) + y) * width + usize::from(frame.left)) * channels;
        let out = pixels.get_mut(start..start + row * channels).ok_or_else(|| damaged("rows beyond the image"))?;
        for (out, index) in out.chunks_exact_mut(channels).zip(indices) {
            if frame.transparent != Some(*index) {
                let colour = palette.get(usize::from(*index)).ok_or_else(|| damaged("a colour beyond the palette"))?;
                out.copy_from_slice(&colour[..channels]);
            }
        }
    }
    Ok(Picture { width, height, channels, pixels })
}

fn damaged(reason: impl Into<String>) -> ImageError {
    ImageError::Damaged { format: FORMAT, reason: reason.into() }
}

fn explain(error: DecodingError) -> ImageError {
    match error {
        DecodingError::UnexpectedEof => ImageError::Truncated { format: FORMAT },
        DecodingError::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            ImageError::Truncated { format: FORMAT }
        }
        DecodingError::MemoryLimit | DecodingError::OutOfMemory => {
            ImageError::Allocation { bytes: MAX_ALLOCATION + 1, limit: MAX_ALLOCATION }
        }
        error => damaged(error.to_string()),
    }
}
