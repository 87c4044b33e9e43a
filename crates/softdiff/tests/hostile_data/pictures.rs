//! Pictures that lie, each alone in a zip.

use super::{Case, case, golden};
use crate::forge::crc32;
use crate::forge::pack::deflated;
use crate::forge::zip::write;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write;

pub fn picture(name: &str) -> Vec<u8> {
    golden(&format!("pictures/{name}"))
}

/// In an archive, so that the picture's own name is what the error must show.
fn alone(what: &'static str, file: &'static str, bytes: Vec<u8>, variant: &'static str, message: &'static str) -> Case {
    case(what, file, write(&[deflated(file, &bytes)]), variant, message)
}

fn chunk(kind: &[u8], content: &[u8]) -> Vec<u8> {
    let checked = [kind, content].concat();
    [&(content.len() as u32).to_be_bytes()[..], &checked, &crc32(&checked).to_be_bytes()].concat()
}

fn png(width: u32, height: u32, depth: u8, colour: u8, rest: &[u8]) -> Vec<u8> {
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[depth, colour, 0, 0, 0]].concat();
    [b"\x89PNG\r\n\x1a\n", &chunk(b"IHDR", &header)[..], rest].concat()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A PNG whose data are `bytes`, compressed.
fn png_of(width: u32, height: u32, colour: u8, bytes: &[u8]) -> Vec<u8> {
    png(width, height, 8, colour, &[chunk(b"IDAT", &zlib(bytes)), chunk(b"IEND", &[])].concat())
}

fn changed(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = picture(name);
    change(&mut bytes);
    bytes
}

fn half(name: &str) -> Vec<u8> {
    changed(name, |bytes| bytes.truncate(bytes.len() / 2))
}

/// Where a JPEG has this marker.
fn marker(bytes: &[u8], marker: u8) -> usize {
    bytes.windows(2).position(|pair| pair == [0xFF, marker]).unwrap()
}

/// A JPEG with the size of its frame header changed.
fn jpeg_size(name: &str, frame: u8, width: u16, height: u16) -> Vec<u8> {
    changed(name, |bytes| {
        let at = marker(bytes, frame) + 5;
        bytes[at..at + 2].copy_from_slice(&height.to_be_bytes());
        bytes[at + 2..at + 4].copy_from_slice(&width.to_be_bytes());
    })
}

fn jpeg_byte(name: &str, frame: u8, offset: usize, value: u8) -> Vec<u8> {
    changed(name, |bytes| {
        let at = marker(bytes, frame) + offset;
        bytes[at] = value;
    })
}

/// A progressive JPEG that repeats a scan of a few bytes over and over.
fn many_scans() -> Vec<u8> {
    changed("progressive-420.jpg", |bytes| {
        let end = bytes.len() - 2;
        // One more bit of DC for each of the 20 blocks of the first component.
        let scan = [0xFF, 0xDA, 0, 8, 1, 1, 0, 0, 0, 0x21, 0, 0, 0];
        bytes.splice(end..end, scan.repeat(500));
    })
}

/// All codes of the first table are one bit long.
fn too_many_codes() -> Vec<u8> {
    changed("grey.jpg", |bytes| {
        let at = marker(bytes, 0xC4) + 5;
        let total = bytes[at..at + 16].iter().sum();
        bytes[at..at + 16].fill(0);
        bytes[at] = total;
    })
}

fn bmp(width: i32, height: i32, bits: u16, compression: u32) -> Vec<u8> {
    changed("rgb.bmp", |bytes| {
        bytes[18..22].copy_from_slice(&width.to_le_bytes());
        bytes[22..26].copy_from_slice(&height.to_le_bytes());
        bytes[28..30].copy_from_slice(&bits.to_le_bytes());
        bytes[30..34].copy_from_slice(&compression.to_le_bytes());
    })
}

fn gif_size(width: u16, height: u16) -> Vec<u8> {
    changed("palette.gif", |bytes| {
        bytes[6..8].copy_from_slice(&width.to_le_bytes());
        bytes[8..10].copy_from_slice(&height.to_le_bytes());
    })
}

/// A little-endian TIFF with the values of some entries of its directory changed.
fn tiff(name: &str, entries: &[(u16, u16)]) -> Vec<u8> {
    changed(name, |bytes| {
        let directory = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
        for (tag, value) in entries {
            let found = (directory + 2..).step_by(12).find(|&at| bytes[at..at + 2] == tag.to_le_bytes());
            let at = found.unwrap() + 8;
            bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
    })
}

fn tiff_size(name: &str, width: u16, height: u16) -> Vec<u8> {
    // All rows in one strip.
    tiff(name, &[(256, width), (257, height), (278, height)])
}

pub fn pictures() -> Vec<Case> {
    let zeros = vec![0; 3000 * (1 + 9000)];
    vec![
        alone("nothing", "a.png", vec![], "Unknown", "the file is empty"),
        alone("text", "a.png", b"hello, I am no picture".to_vec(), "Unknown", "begins with \"hello, I\""),
        alone("GIF of a few bytes", "a.gif", b"GIF89a\x01\0\x01\0".to_vec(), "Truncated", "GIF: the file is cut off"),
        alone("GIF cut in half", "a.gif", half("palette.gif"), "Truncated", "cut off"),
        alone("GIF of 65535 x 65535", "a.gif", gif_size(65535, 65535), "Side", "65535 x 65535"),
        alone("GIF of 8192 x 8192 in 1 KB", "a.gif", gif_size(8192, 8192), "Claims", "8192 x 8192"),
        alone("GIF smaller than its picture", "a.gif", gif_size(5, 5), "Damaged", "GIF"),
        alone("GIF without pixels", "a.gif", gif_size(0, 5), "Empty", "0 x 5"),
        alone("TIFF of a few bytes", "a.tif", b"II*\0\x08\0\0\0".to_vec(), "Truncated", "TIFF: the file is cut off"),
        alone("TIFF cut in half", "a.tif", half("rgb.tiff"), "Truncated", "cut off"),
        alone("TIFF of 65535 x 65535", "a.tif", tiff_size("lzw.tiff", 65535, 65535), "Side", "65535 x 65535"),
        alone("TIFF of 8192 x 8192 in 4 KB", "a.tif", tiff_size("lzw.tiff", 8192, 8192), "Claims", "8192 x 8192"),
        alone("TIFF without pixels", "a.tif", tiff_size("rgb.tiff", 0, 5), "", "TIFF"),
        alone("TIFF of JPEG", "a.tif", tiff("rgb.tiff", &[(259, 7)]), "Unsupported", "TIFF"),
        alone("TIFF of a palette", "a.tif", tiff("grey.tiff", &[(262, 3)]), "Unsupported", "RGBPalette"),
        alone("AVIF", "a.avif", b"\0\0\0\x20ftypavif".to_vec(), "Format", "AVIF"),
        alone(
            "PNG of 65535 x 65535",
            "a.png",
            png(65535, 65535, 8, 2, &chunk(b"IDAT", &[0; 9])),
            "Side",
            "65535 x 65535",
        ),
        alone("PNG of 2^31 pixels", "a.png", png(u32::MAX / 2, 1, 8, 0, &[]), "Side", "limit of 8192"),
        alone(
            "PNG of 8192 x 8192 in 60 bytes",
            "a.png",
            png(8192, 8192, 8, 2, &chunk(b"IDAT", &[0; 9])),
            "Claims",
            "more than a file of",
        ),
        alone("PNG without pixels", "a.png", png(0, 5, 8, 0, &[]), "Damaged", "PNG"),
        alone("PNG with a header alone", "a.png", png(5, 5, 8, 0, &[]), "Truncated", "cut off"),
        alone("PNG of too few rows", "a.png", png_of(10, 10, 0, &[0; 55]), "", "PNG"),
        alone("PNG of 36 MB in 26 KB", "a.png", png_of(3000, 3000, 6, &zeros), "Claims", "3000 x 3000"),
        alone("PNG with a palette missing", "a.png", png_of(2, 2, 3, &[0; 6]), "Damaged", "PNG"),
        alone("PNG of depth 3", "a.png", png(2, 2, 3, 0, &[]), "Damaged", "PNG"),
        alone("PNG of colour 5", "a.png", png(2, 2, 8, 5, &[]), "Damaged", "PNG"),
        alone("PNG with a wrong checksum", "a.png", changed("rgb.png", |b| b[20] ^= 1), "Damaged", "PNG"),
        alone("PNG cut in half", "a.png", half("rgb.png"), "Truncated", "cut off"),
        alone("16-bit PNG cut in half", "a.png", half("rgb-16-bit.png"), "Truncated", "cut off"),
        alone("animated PNG cut in half", "a.png", half("animated.png"), "PNG", "PNG"),
        alone("JPEG cut in half", "a.jpg", half("baseline-420.jpg"), "Truncated", "JPEG: the file is cut off"),
        alone("progressive JPEG cut in half", "a.jpg", half("progressive-420.jpg"), "Truncated", "cut off"),
        alone("CMYK JPEG cut in half", "a.jpg", half("cmyk.jpg"), "Truncated", "cut off"),
        alone("JPEG of two bytes more than its magic", "a.jpg", vec![0xFF, 0xD8, 0xFF, 0xE0], "Truncated", "cut off"),
        alone(
            "JPEG of 65535 x 65535",
            "a.jpg",
            jpeg_size("baseline-420.jpg", 0xC0, 65535, 65535),
            "Side",
            "65535 x 65535",
        ),
        alone(
            "JPEG of 8192 x 8192 in 1 KB",
            "a.jpg",
            jpeg_size("baseline-420.jpg", 0xC0, 8192, 8192),
            "Claims",
            "8192 x 8192",
        ),
        alone(
            "JPEG larger than its scan",
            "a.jpg",
            jpeg_size("baseline-420.jpg", 0xC0, 200, 200),
            "Truncated",
            "cut off",
        ),
        alone("JPEG of height 0", "a.jpg", jpeg_size("baseline-420.jpg", 0xC0, 37, 0), "Empty", "37 x 0"),
        alone(
            "JPEG of 12 bits",
            "a.jpg",
            jpeg_byte("baseline-420.jpg", 0xC0, 4, 12),
            "Unsupported",
            "precision other than 8 bits",
        ),
        alone("JPEG of 2 components", "a.jpg", jpeg_byte("baseline-420.jpg", 0xC0, 9, 2), "Unsupported", "components"),
        alone(
            "JPEG sampled 5 to 1",
            "a.jpg",
            jpeg_byte("baseline-420.jpg", 0xC0, 11, 0x51),
            "Damaged",
            "sampling factor",
        ),
        alone(
            "JPEG sampled 3 to 2",
            "a.jpg",
            changed("baseline-444.jpg", |b| {
                let at = marker(b, 0xC0);
                (b[at + 11], b[at + 14]) = (0x31, 0x21);
            }),
            "Unsupported",
            "fractional",
        ),
        alone(
            "JPEG in arithmetic coding",
            "a.jpg",
            jpeg_byte("baseline-420.jpg", 0xC0, 1, 0xC9),
            "Unsupported",
            "arithmetic coding",
        ),
        alone("lossless JPEG", "a.jpg", jpeg_byte("baseline-420.jpg", 0xC0, 1, 0xC3), "Unsupported", "lossless"),
        alone(
            "JPEG without tables",
            "a.jpg",
            jpeg_byte("grey.jpg", 0xC4, 1, 0xFE),
            "Damaged",
            "Huffman table is missing",
        ),
        alone("JPEG with too many codes", "a.jpg", too_many_codes(), "", "Huffman table"),
        alone(
            "JPEG of a missing component",
            "a.jpg",
            jpeg_byte("grey.jpg", 0xDA, 5, 77),
            "Damaged",
            "unknown component",
        ),
        alone("JPEG of 500 scans", "a.jpg", many_scans(), "Unsupported", "128 scans"),
        alone("WebP cut in half", "a.webp", half("lossless.webp"), "", "WebP"),
        alone("WebP of noise", "a.webp", changed("lossy.webp", |b| b[20..].fill(0xA5)), "Damaged", "WebP"),
        alone("BMP of 20000 x 20000", "a.bmp", bmp(20000, 20000, 24, 0), "Side", "20000"),
        alone("BMP larger than its data", "a.bmp", bmp(300, 300, 24, 0), "Truncated", "BMP"),
        alone("BMP of height -2^31", "a.bmp", bmp(5, i32::MIN, 24, 0), "Side", "2147483648"),
        alone("compressed BMP", "a.bmp", bmp(37, 29, 8, 1), "Unsupported", "compressed"),
        alone("PPM of text", "a.ppm", b"P3 1 1 255 1 2 3".to_vec(), "Unsupported", "binary grey"),
        alone("PPM of 99999 a side", "a.ppm", b"P6 99999 99999 255\n".to_vec(), "Side", "99999"),
        alone("PPM without data", "a.ppm", b"P6 90 90 255\n".to_vec(), "Truncated", "PNM"),
        alone("PPM of a maximum of 0", "a.ppm", b"P6 9 9 0\n".to_vec(), "Damaged", "largest sample"),
        alone("PPM without numbers", "a.ppm", b"P6 # nothing\n".to_vec(), "Damaged", "number is missing"),
    ]
}
