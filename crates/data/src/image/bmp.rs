//! Windows bitmaps: uncompressed, 8 bits with a palette, 24 or 32 bits.

use super::{ImageError, Picture, check_size};
use crate::bytes::{Bytes, BytesError};

const FORMAT: &str = "BMP";
const PART: &str = "the header";
const UNCOMPRESSED: u32 = 0;
/// Colours by bit masks; with 32 bits, in practice always blue, green, red.
const BIT_FIELDS: u32 = 3;
const BLUE_GREEN_RED: [u32; 3] = [0x00FF_0000, 0x0000_FF00, 0x0000_00FF];

/// Decodes to grey (a grey palette) or RGB.
pub fn decode(bytes: &[u8]) -> Result<Picture, ImageError> {
    let header = BmpHeader::read(bytes)?;
    let (width, height) = (header.width as usize, header.height.unsigned_abs() as usize);
    let stride = (width * header.bits / 8).next_multiple_of(4);
    let data = bytes.get(header.data..).and_then(|data| data.get(..stride * height));
    let data = data.ok_or(ImageError::Truncated { format: FORMAT })?;
    let grey = header.palette.iter().all(|[b, g, r, _]| b == g && g == r);
    let channels = if header.bits == 8 && grey { 1 } else { 3 };
    let mut pixels = Vec::with_capacity(width * height * channels);
    for y in 0..height {
        // Rows come from the bottom unless the height is negative.
        let row = if header.height < 0 { y } else { height - 1 - y };
        let row = data.get(row * stride..).unwrap_or_default();
        match header.bits {
            8 => {
                for &index in row.iter().take(width) {
                    let colour = header.palette.get(usize::from(index));
                    let &[b, g, r, _] = colour.ok_or_else(|| damaged("a colour beyond the palette"))?;
                    pixels.extend_from_slice([r, g, b].get(..channels).unwrap_or_default());
                }
            }
            24 => pixels.extend(row.as_chunks().0.iter().take(width).flat_map(|&[b, g, r]| [r, g, b])),
            _ => pixels.extend(row.as_chunks().0.iter().take(width).flat_map(|&[b, g, r, _]| [r, g, b])),
        }
    }
    Ok(Picture { width, height, channels, pixels })
}

struct BmpHeader {
    width: u32,
    height: i32,
    bits: usize,
    data: usize,
    palette: Vec<[u8; 4]>,
}

impl BmpHeader {
    fn read(bytes: &[u8]) -> Result<BmpHeader, ImageError> {
        let mut cursor = Bytes::at(bytes, 10, PART).map_err(cut)?;
        let data = cursor.u32().map_err(cut)? as usize;
        let length = cursor.u32().map_err(cut)?;
        if !(40..=124).contains(&length) {
            return Err(unsupported("a header of the OS/2 kind"));
        }
        let (width, height) = (cursor.u32().map_err(cut)?, cursor.u32().map_err(cut)? as i32);
        cursor.take(2).map_err(cut)?; // Planes.
        let bits = cursor.u16().map_err(cut)?;
        let compression = cursor.u32().map_err(cut)?;
        cursor.take(12).map_err(cut)?; // Size of the data, resolution.
        let colours = cursor.u32().map_err(cut)?;
        check_size(width.into(), height.unsigned_abs().into(), 3, bits.into(), bytes)?;
        match (bits, compression) {
            (8 | 24 | 32, UNCOMPRESSED) => {}
            (32, BIT_FIELDS) => {
                let mut masks = Bytes::at(bytes, 54, PART).map_err(cut)?;
                for expected in BLUE_GREEN_RED {
                    if masks.u32().map_err(cut)? != expected {
                        return Err(unsupported("an unusual order of colours"));
                    }
                }
            }
            _ => return Err(unsupported("a compressed bitmap or a depth other than 8, 24 and 32 bits")),
        }
        let colours = if bits == 8 { if colours == 0 { 256 } else { colours.min(256) } } else { 0 };
        let mut palette = Bytes::at(bytes, 14 + u64::from(length), PART).map_err(cut)?;
        let palette = palette.take(u64::from(colours) * 4).map_err(cut)?.as_chunks().0.to_vec();
        Ok(BmpHeader { width, height, bits: bits.into(), data, palette })
    }
}

fn cut(_: BytesError) -> ImageError {
    ImageError::Truncated { format: FORMAT }
}

fn damaged(reason: &str) -> ImageError {
    ImageError::Damaged { format: FORMAT, reason: reason.into() }
}

fn unsupported(what: &'static str) -> ImageError {
    ImageError::Unsupported { format: FORMAT, what: what.into() }
}
