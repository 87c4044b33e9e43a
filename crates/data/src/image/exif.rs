//! The orientation that a camera notes in an image's EXIF data.
//!
//! Only tag 0x0112 of the first directory is looked for. EXIF data that is damaged counts as absent, as in every viewer: the
//! pixels are still good.

use super::{Format, Picture};

const ORIENTATION: u16 = 0x0112;
const SHORT: u16 = 3;

/// How stored pixels are turned to be upright: the values 1 to 8 of EXIF's orientation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Orientation(u8);

impl Orientation {
    /// The orientation that an image file notes, if any.
    pub fn of(bytes: &[u8]) -> Option<Orientation> {
        let tiff = match Format::recognise(bytes)? {
            Format::Jpeg => jpeg(bytes),
            Format::Png => png(bytes),
            Format::WebP => webp(bytes),
            Format::Tiff => Some(bytes),
            Format::Bmp | Format::Pnm | Format::Gif => None,
        }?;
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

/// The orientation in TIFF data: a header with the byte order, then a directory of entries of 12 bytes.
fn read(tiff: &[u8]) -> Option<u16> {
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
    if short(entry + 2)? != SHORT { None } else { short(entry + 8) }
}

/// The APP1 segment of a JPEG, before its first scan.
fn jpeg(bytes: &[u8]) -> Option<&[u8]> {
    let mut at = 2;
    loop {
        let &[0xFF, marker, high, low] = bytes.get(at..at + 4)? else { return None };
        if marker == 0xFF {
            // Padding.
            at += 1;
            continue;
        }
        let body = bytes.get(at + 4..at + 2 + usize::from(u16::from_be_bytes([high, low])))?;
        match marker {
            0xE1 if body.starts_with(b"Exif\0\0") => return body.get(6..),
            0xDA | 0xD9 => return None,
            _ => at += 4 + body.len(),
        }
    }
}

/// The eXIf chunk of a PNG.
fn png(bytes: &[u8]) -> Option<&[u8]> {
    let mut at = 8;
    loop {
        let length = u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize;
        let body = bytes.get(at + 8..at.checked_add(8)?.checked_add(length)?)?;
        match bytes.get(at + 4..at + 8)? {
            b"eXIf" => return Some(body),
            _ => at += 12 + length,
        }
    }
}

/// The EXIF chunk of a WebP; some writers begin it as in a JPEG.
fn webp(bytes: &[u8]) -> Option<&[u8]> {
    let mut at = 12;
    loop {
        let length = u32::from_le_bytes(bytes.get(at + 4..at + 8)?.try_into().ok()?) as usize;
        let body = bytes.get(at + 8..at.checked_add(8)?.checked_add(length)?)?;
        match bytes.get(at..at + 4)? {
            b"EXIF" => return Some(body.strip_prefix(b"Exif\0\0").unwrap_or(body)),
            // Chunks have even lengths.
            _ => at += 8 + length + length % 2,
        }
    }
}
