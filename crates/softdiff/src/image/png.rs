//! Writing PNG: the same bytes for the same pixels, always.

use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write;

pub(super) const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// "Up": each byte less the one above it; good for pictures and for grids of them.
const FILTER_UP: u8 = 2;

/// Encodes `height` rows of `width` pixels of 1 (grey) or 3 (RGB) channels.
///
/// # Panics
/// If `pixels` has another length than `width * height * channels`, or there is no pixel: a mistake of the caller.
pub fn encode(width: usize, height: usize, channels: usize, pixels: &[u8]) -> Vec<u8> {
    encode_at(Compression::default(), width, height, channels, pixels)
}

/// The same picture several times faster in a somewhat larger file, for those that are looked at once.
///
/// # Panics
/// As [`encode`].
pub fn encode_quickly(width: usize, height: usize, channels: usize, pixels: &[u8]) -> Vec<u8> {
    encode_at(Compression::fast(), width, height, channels, pixels)
}

fn encode_at(level: Compression, width: usize, height: usize, channels: usize, pixels: &[u8]) -> Vec<u8> {
    assert!(matches!(channels, 1 | 3), "{channels} channels, expected 1 or 3");
    assert!(!pixels.is_empty() && pixels.len() == width * height * channels, "the pixels do not fill the picture");
    let mut file = SIGNATURE.to_vec();
    chunk(&mut file, b"IHDR", &header(width, height, channels));
    chunk(&mut file, b"IDAT", &compress_at(level, &filter(width * channels, pixels)));
    chunk(&mut file, b"IEND", &[]);
    file
}

/// The content of the first chunk.
pub(super) fn header(width: usize, height: usize, channels: usize) -> Vec<u8> {
    let mut header = [width as u32, height as u32].map(u32::to_be_bytes).concat();
    // 8 bits, grey (0) or RGB (2), deflate, adaptive filters, not interlaced.
    header.extend([8, if channels == 1 { 0 } else { 2 }, 0, 0, 0]);
    header
}

pub(super) fn filter(row: usize, pixels: &[u8]) -> Vec<u8> {
    let mut filtered = Vec::with_capacity(pixels.len() + pixels.len() / row);
    let mut above = vec![0; row];
    for line in pixels.chunks_exact(row) {
        filtered.push(FILTER_UP);
        filtered.extend(line.iter().zip(&above).map(|(here, above)| here.wrapping_sub(*above)));
        above.copy_from_slice(line);
    }
    filtered
}

pub(super) fn compress(bytes: &[u8]) -> Vec<u8> {
    compress_at(Compression::default(), bytes)
}

fn compress_at(level: Compression, bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), level);
    // Writing into memory cannot fail.
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default()
}

pub(super) fn chunk(file: &mut Vec<u8>, kind: &[u8; 4], content: &[u8]) {
    file.extend((content.len() as u32).to_be_bytes());
    let checked = [kind, content].concat();
    file.extend(&checked);
    file.extend(crc32fast::hash(&checked).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_decodes_to_the_same_pixels() {
        for (width, height, channels) in [(1, 1, 1), (5, 3, 3), (64, 2, 1), (7, 70, 3)] {
            let pixels: Vec<u8> = (0..width * height * channels).map(|i| (i * i / 3) as u8).collect();
            let file = encode(width, height, channels, &pixels);
            let decoded = crate::image::decode(&file).unwrap();
            let quickly = encode_quickly(width, height, channels, &pixels);
            assert_eq!(crate::image::decode(&quickly).unwrap(), decoded);
            assert_eq!(decoded, crate::image::Picture { width, height, channels, pixels });
        }
    }
}
