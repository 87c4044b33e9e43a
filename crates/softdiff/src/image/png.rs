//! A PNG writer: 8 bits, grey or colour, pixels stored without compression.
//!
//! PNG (ISO/IEC 15948) wants zlib data (RFC 1950); deflate (RFC 1951) allows blocks that are simply stored. Files are as
//! large as their pixels, which for strips of small images is a few hundred kilobytes.

use super::ImageError;
use crate::corruption::Shape;

const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";
/// Most bytes of a stored deflate block.
const STORED_BLOCK: usize = 65_535;

/// The bytes of a PNG file.
pub fn encode_png(shape: Shape, pixels: &[u8]) -> Result<Vec<u8>, ImageError> {
    let Shape { height, width, channels } = shape;
    let colour_type = match channels {
        1 => 0,
        3 => 2,
        _ => return Err(ImageError::Unwritable { shape, bytes: pixels.len() }),
    };
    let (Ok(wide), Ok(high)) = (u32::try_from(width), u32::try_from(height)) else {
        return Err(ImageError::Unwritable { shape, bytes: pixels.len() });
    };
    if shape.is_empty() || pixels.len() != shape.len() {
        return Err(ImageError::Unwritable { shape, bytes: pixels.len() });
    }
    let mut header = [wide.to_be_bytes(), high.to_be_bytes()].concat();
    header.extend([8, colour_type, 0, 0, 0]);
    // Each row begins with its filter: none.
    let rows: Vec<u8> =
        pixels.chunks_exact(width * channels).flat_map(|row| std::iter::once(&0).chain(row)).copied().collect();
    let mut file = SIGNATURE.to_vec();
    push_chunk(&mut file, b"IHDR", &header);
    push_chunk(&mut file, b"IDAT", &stored_zlib(&rows));
    push_chunk(&mut file, b"IEND", &[]);
    Ok(file)
}

fn push_chunk(file: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    file.extend((data.len() as u32).to_be_bytes());
    let checked = [kind, data].concat();
    file.extend(&checked);
    file.extend(crc32(&checked).to_be_bytes());
}

fn stored_zlib(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let blocks = data.chunks(STORED_BLOCK);
    let last = blocks.len() - 1;
    for (index, block) in blocks.enumerate() {
        let length = block.len() as u16;
        out.push(u8::from(index == last));
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(block);
    }
    out.extend(adler32(data).to_be_bytes());
    out
}

/// CRC-32 as in PNG, annex D.
fn crc32(data: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in data {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { 0xEDB8_8320 ^ (crc >> 1) } else { crc >> 1 };
        }
    }
    !crc
}

/// Adler-32 as in RFC 1950.
fn adler32(data: &[u8]) -> u32 {
    let (mut a, mut b) = (1u32, 0u32);
    for &byte in data {
        a = (a + u32::from(byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_equal_their_published_values() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b"IEND"), 0xAE42_6082);
        assert_eq!(adler32(b"Wikipedia"), 0x11E6_0398);
    }

    #[test]
    fn a_file_has_its_header_and_every_pixel() {
        let shape = Shape::new(200, 150, 3);
        let pixels: Vec<u8> = (0..shape.len()).map(|i| (i % 251) as u8).collect();
        let file = encode_png(shape, &pixels).unwrap();
        assert_eq!(&file[..8], &SIGNATURE);
        assert_eq!(&file[16..26], &[0, 0, 0, 150, 0, 0, 0, 200, 8, 2]);
        let rows = 200 * (1 + 450);
        assert_eq!(file.len(), 8 + 25 + 12 + 2 + 2 * 5 + rows + 4 + 12);
    }

    #[test]
    fn shapes_that_png_does_not_know_are_refused() {
        for (shape, bytes) in [(Shape::new(2, 2, 4), 16), (Shape::new(2, 2, 3), 11), (Shape::new(0, 2, 3), 0)] {
            assert!(matches!(encode_png(shape, &vec![0; bytes]), Err(ImageError::Unwritable { .. })));
        }
    }
}
