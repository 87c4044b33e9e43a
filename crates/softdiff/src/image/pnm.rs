//! Binary PPM (colour) and PGM (grey) files: P6 and P5.

use super::{Image, ImageError};
use crate::corruption::Shape;
use std::path::Path;

/// Longest side accepted.
const LARGEST_SIDE: usize = 8192;
const LARGEST_FILE: u64 = 256 << 20;

/// Reads a binary PPM or PGM file of 8-bit values.
pub fn read_pnm(path: &Path) -> Result<Image, ImageError> {
    let size = std::fs::metadata(path).map_err(|e| ImageError::file(path, e))?.len();
    if size > LARGEST_FILE {
        return Err(ImageError::file(path, format!("{size} bytes are more than the {LARGEST_FILE} allowed")));
    }
    let bytes = std::fs::read(path).map_err(|e| ImageError::file(path, e))?;
    parse(&bytes).map_err(|problem| ImageError::file(path, problem))
}

fn parse(bytes: &[u8]) -> Result<Image, String> {
    let channels = match bytes.get(..2) {
        Some(b"P6") => 3,
        Some(b"P5") => 1,
        _ => return Err("not a binary PPM (P6) or PGM (P5) file; convert it with `magick IN OUT.ppm`".to_owned()),
    };
    let mut at = 2;
    let mut number = || -> Result<usize, String> {
        // Blanks and comments may stand before each number.
        loop {
            match bytes.get(at) {
                Some(b'#') => at += bytes[at..].iter().position(|&b| b == b'\n').unwrap_or(bytes.len() - at),
                Some(b) if b.is_ascii_whitespace() => at += 1,
                _ => break,
            }
        }
        let digits = bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
        let text = std::str::from_utf8(&bytes[at..at + digits]).unwrap_or_default();
        at += digits;
        text.parse().map_err(|_| "its header is broken; write the file again".to_owned())
    };
    let (width, height, largest) = (number()?, number()?, number()?);
    if width == 0 || height == 0 || width > LARGEST_SIDE || height > LARGEST_SIDE {
        return Err(format!("{width}x{height} pixels; sides must be 1 to {LARGEST_SIDE}"));
    }
    if largest == 0 || largest > 255 {
        return Err(format!("values up to {largest}; only 8-bit files are read"));
    }
    let shape = Shape::new(height, width, channels);
    let data = bytes.get(at + 1..at + 1 + shape.len()).ok_or("it ends before its last pixel")?;
    Ok(Image { shape, values: data.iter().map(|&b| f64::from(b) / largest as f64).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_and_grey_files_are_read_with_comments() {
        let image = parse(b"P6 # a comment\n2 1\n255\n\x00\x33\xff\xff\x00\x00").unwrap();
        assert_eq!((image.shape, &image.values[..3]), (Shape::new(1, 2, 3), &[0.0, 0.2, 1.0][..]));
        assert_eq!(parse(b"P5 1 2 100 \x32\x64").unwrap().values, [0.5, 1.0]);
    }

    #[test]
    fn broken_files_are_refused_without_panic() {
        for bytes in [&b""[..], b"P", b"P3 1 1 255 0", b"P6", b"P6 #", b"P6 1 1", b"P6 1 1 255", b"P6 1 1 255 ab"] {
            assert!(parse(bytes).is_err(), "{bytes:?}");
        }
        for bytes in [&b"P5 99999 1 255 a"[..], b"P5 0 1 255 a", b"P5 1 1 65535 aa", b"P5 99999999999999999999 1 1 "] {
            assert!(parse(bytes).is_err(), "{bytes:?}");
        }
    }
}
