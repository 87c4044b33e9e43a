//! The orientation that a camera notes in an image's EXIF data.
//!
//! Only tag 0x0112 of the first directory is looked for. EXIF data that is damaged counts as absent, as in every viewer: the
//! pixels are still good.

use super::chunks::{jpeg_segments, png_chunks, webp_chunks};
use super::{Format, Picture};

const ORIENTATION: u16 = 0x0112;
const SHORT: u16 = 3;

/// How stored pixels are turned to be upright: the values 1 to 8 of EXIF's orientation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Orientation(u8);

impl Orientation {
    /// The orientation that an image file notes, if any.
    pub fn of(bytes: &[u8]) -> Option<Orientation> {
        let tiff = if Format::recognise(bytes)? == Format::Tiff { bytes } else { find(bytes)? };
        read(tiff).filter(|value| (1..=8).contains(value)).map(|value| Orientation(value as u8))
    }

    /// What turns an image clockwise by so many quarters.
    pub fn of_quarters(quarters: usize) -> Orientation {
        Orientation([1, 6, 3, 8][quarters % 4])
    }

    /// The image turned upright.
    pub fn apply(self, picture: Picture) -> Picture {
        let Picture { width, height, channels, pixels } = &picture;
        let (w, h) = (*width, *height);
        if self.0 == 1 {
            return picture;
        }
        let (new_width, new_height) = if self.0 < 5 { (w, h) } else { (h, w) };
        let mut turned = Vec::with_capacity(pixels.len());
        for (y, x) in (0..new_height).flat_map(|y| (0..new_width).map(move |x| (y, x))) {
            let (from_x, from_y) = match self.0 {
                2 => (w - 1 - x, y),
                3 => (w - 1 - x, h - 1 - y),
                4 => (x, h - 1 - y),
                5 => (y, x),
                6 => (y, h - 1 - x),
                7 => (w - 1 - y, h - 1 - x),
                _ => (w - 1 - y, x),
            };
            let at = (from_y * w + from_x) * channels;
            turned.extend_from_slice(&pixels[at..at + channels]);
        }
        Picture { width: new_width, height: new_height, channels: *channels, pixels: turned }
    }
}

/// The EXIF data of a JPEG, PNG or WebP, which are those of a TIFF without its pixels.
pub(super) fn find(bytes: &[u8]) -> Option<&[u8]> {
    const LEAD: &[u8] = b"Exif\0\0";
    match Format::recognise(bytes)? {
        Format::Jpeg => {
            jpeg_segments(bytes).find_map(|(marker, body)| body.strip_prefix(LEAD).filter(|_| marker == 0xE1))
        }
        Format::Png => png_chunks(bytes).find(|(name, _)| *name == b"eXIf").map(|(_, body)| body),
        // Some writers begin it as in a JPEG.
        Format::WebP => {
            let chunk = webp_chunks(bytes).find(|(name, _)| *name == b"EXIF");
            chunk.map(|(_, body)| body.strip_prefix(LEAD).unwrap_or(body))
        }
        Format::Tiff | Format::Bmp | Format::Pnm | Format::Gif => None,
    }
}

/// Says in EXIF data that the pixels are upright, where they say something of it.
pub(super) fn set_upright(tiff: &mut [u8]) {
    if let Some((at, big)) = place(tiff) {
        tiff[at..at + 2].copy_from_slice(&if big { 1u16.to_be_bytes() } else { 1u16.to_le_bytes() });
    }
}

/// The orientation in TIFF data.
fn read(tiff: &[u8]) -> Option<u16> {
    let (at, big) = place(tiff)?;
    let bytes: [u8; 2] = tiff.get(at..at + 2)?.try_into().ok()?;
    Some(if big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
}

/// Where the two bytes of the orientation are in TIFF data, and whether the first is the high one: a header with the byte
/// order, then a directory of entries of 12 bytes.
fn place(tiff: &[u8]) -> Option<(usize, bool)> {
    let big = match tiff.get(..4)? {
        [b'I', b'I', 42, 0] => false,
        [b'M', b'M', 0, 42] => true,
        _ => return None,
    };
    let short = |at: usize| {
        let bytes: [u8; 2] = tiff.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    };
    let bytes: [u8; 4] = tiff.get(4..8)?.try_into().ok()?;
    let directory = if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) } as usize;
    let entries = usize::from(short(directory)?);
    let entry = (0..entries).map(|i| directory + 2 + 12 * i).find(|&at| short(at) == Some(ORIENTATION))?;
    if short(entry + 2)? != SHORT { None } else { short(entry + 8).map(|_| (entry + 8, big)) }
}
