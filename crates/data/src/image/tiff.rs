//! TIFF files, decoded by the `tiff` crate within our limits: the first picture, uncompressed, LZW, Deflate or PackBits.

use super::{ImageError, MAX_ALLOCATION, Picture, check_size};
use std::borrow::Cow;
use std::io::{Cursor, ErrorKind};
use tiff::decoder::{BufferLayoutPreference, Decoder, DecodingResult, Limits};
use tiff::{ColorType, TiffError};

const FORMAT: &str = "TIFF";

/// Decodes to grey or RGB, with a channel of opacity where there is transparency; of 16 bits the high byte, as in a PNG.
pub fn decode(bytes: &[u8]) -> Result<Picture, ImageError> {
    let mut limits = Limits::default();
    limits.decoding_buffer_size = MAX_ALLOCATION as usize;
    limits.intermediate_buffer_size = MAX_ALLOCATION as usize;
    let mut decoder = Decoder::new(Cursor::new(bytes)).map_err(explain)?.with_limits(limits);
    let (width, height) = decoder.dimensions().map_err(explain)?;
    let colour = decoder.colortype().map_err(explain)?;
    let (samples, bits) = (u64::from(colour.num_samples()), u64::from(colour.bit_depth()));
    // LZW packs up to 2730 bytes into one, 2.5 times what deflate does.
    check_size(width.into(), height.into(), samples.max(3) * bits.div_ceil(8), (samples * bits).div_ceil(3), bytes)?;
    let mut decoded = DecodingResult::U8(Vec::new());
    let BufferLayoutPreference { planes, .. } = decoder.read_image_to_buffer(&mut decoded).map_err(explain)?;
    if planes > 1 {
        return Err(unsupported("a plane for each colour"));
    }
    let pixels = match decoded {
        DecodingResult::U8(samples) if bits == 8 => samples,
        DecodingResult::U8(packed) if samples == 1 => unpack(&packed, width as usize, bits as u8),
        DecodingResult::U16(samples) if bits == 16 => samples.into_iter().map(|sample| (sample >> 8) as u8).collect(),
        _ => return Err(unsupported("a depth other than 1, 2, 4, 8 and 16 bits")),
    };
    let (channels, pixels): (_, Vec<u8>) = match colour {
        ColorType::Gray(bits @ 1..8) => {
            (1, pixels.into_iter().map(|grey| (u16::from(grey) * 255 / ((1 << bits) - 1)) as u8).collect())
        }
        ColorType::Gray(_) => (1, pixels),
        ColorType::RGB(_) => (3, pixels),
        ColorType::GrayA(_) => (2, pixels),
        ColorType::RGBA(_) => (4, pixels),
        _ => return Err(unsupported("a colour space other than grey and RGB")),
    };
    let (width, height) = (width as usize, height as usize);
    if pixels.len() != width * height * channels {
        return Err(damaged("rows of unequal length"));
    }
    Ok(Picture { width, height, channels, pixels })
}

/// Whether a file has samples of 16 bits.
pub fn is_16_bit(bytes: &[u8]) -> bool {
    Decoder::new(Cursor::new(bytes))
        .and_then(|mut decoder| decoder.colortype())
        .is_ok_and(|colour| colour.bit_depth() == 16)
}

/// Samples of 1, 2 or 4 bits, whose rows begin at whole bytes, as a byte each.
fn unpack(packed: &[u8], width: usize, bits: u8) -> Vec<u8> {
    let per_byte = usize::from(8 / bits);
    let rows = packed.chunks_exact(width.div_ceil(per_byte).max(1));
    let sample = |row: &[u8], x: usize| {
        let shift = 8 - bits * (x % per_byte + 1) as u8;
        row[x / per_byte] >> shift & ((1 << bits) - 1)
    };
    rows.flat_map(|row| (0..width).map(move |x| sample(row, x))).collect()
}

fn damaged(reason: impl Into<String>) -> ImageError {
    ImageError::Damaged { format: FORMAT, reason: reason.into() }
}

fn unsupported(what: impl Into<Cow<'static, str>>) -> ImageError {
    ImageError::Unsupported { format: FORMAT, what: what.into() }
}

fn explain(error: TiffError) -> ImageError {
    match error {
        TiffError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof => {
            ImageError::Truncated { format: FORMAT }
        }
        TiffError::LimitsExceeded => ImageError::Allocation { bytes: MAX_ALLOCATION + 1, limit: MAX_ALLOCATION },
        TiffError::UnsupportedError(what) => unsupported(what.to_string()),
        error => damaged(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::unpack;

    #[test]
    fn rows_of_few_bits_begin_at_whole_bytes() {
        assert_eq!(unpack(&[0b1010_0000, 0b0110_0000], 3, 1), [1, 0, 1, 0, 1, 1]);
        assert_eq!(unpack(&[0x12, 0x30], 3, 4), [1, 2, 3]);
        assert_eq!(unpack(&[0b0001_1011], 4, 2), [0, 1, 2, 3]);
    }
}
