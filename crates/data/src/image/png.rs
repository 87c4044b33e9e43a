//! Writing PNG: the same bytes for the same pixels, always.

use super::metadata::XMP_KEYWORD;
use super::{Metadata, Picture};
use png::text_metadata::ITXtChunk;
use png::{BitDepth, ColorType, DeflateCompression, Encoder, Filter, Info, PixelDimensions, Unit};
use std::borrow::Cow;
use std::io::Write;

/// zlib's usual level.
pub(super) const USUAL: DeflateCompression = DeflateCompression::Level(6);
const FAST: DeflateCompression = DeflateCompression::Level(1);

/// Encodes `height` rows of `width` pixels of 1 (grey) or 3 (RGB) channels.
///
/// # Panics
/// If `pixels` has another length than `width * height * channels`, or there is no pixel: a mistake of the caller.
pub fn encode(width: usize, height: usize, channels: usize, pixels: &[u8]) -> Vec<u8> {
    encode_at(USUAL, width, height, channels, pixels)
}

/// The same image several times faster in a somewhat larger file, for those that are looked at once.
///
/// # Panics
/// As [`encode`].
pub fn encode_quickly(width: usize, height: usize, channels: usize, pixels: &[u8]) -> Vec<u8> {
    encode_at(FAST, width, height, channels, pixels)
}

/// An image with what its file says beside the pixels, and with the opacity of each pixel where there is transparency.
///
/// # Panics
/// As [`encode`], also if there is another number of opacities than of pixels.
pub fn encode_with(picture: &Picture, alpha: Option<&[u8]>, metadata: &Metadata) -> Vec<u8> {
    let Picture { width, height, channels, ref pixels } = *picture;
    assert!(!pixels.is_empty() && pixels.len() == width * height * channels, "the pixels do not fill the image");
    let mut file = Vec::new();
    let mut info = Info::with_size(width as u32, height as u32);
    info.exif_metadata = metadata.exif.as_deref().map(Cow::Borrowed);
    info.icc_profile = metadata.profile_for(channels).map(Cow::Borrowed);
    info.pixel_dims = metadata.resolution.map(|(xppu, yppu)| PixelDimensions { xppu, yppu, unit: Unit::Meter });
    // A text that is none is left out.
    let xmp = metadata.xmp.as_ref().and_then(|xmp| String::from_utf8(xmp.clone()).ok());
    info.utf8_text = xmp.into_iter().map(|xmp| ITXtChunk::new(XMP_KEYWORD, xmp)).collect();
    let encoder = Encoder::with_info(&mut file, info).expect("it is no animation");
    let mut encoder = set_up(encoder, USUAL, channels);
    let with_alpha = alpha.map(|alpha| {
        assert_eq!(alpha.len(), width * height, "one opacity for each pixel");
        encoder.set_color(if channels == 1 { ColorType::GrayscaleAlpha } else { ColorType::Rgba });
        let pairs = pixels.chunks_exact(channels).zip(alpha);
        pairs.flat_map(|(pixel, alpha)| pixel.iter().chain([alpha])).copied().collect::<Vec<u8>>()
    });
    let samples = with_alpha.as_ref().unwrap_or(pixels);
    let writer = encoder.write_header();
    writer
        .and_then(|mut writer| writer.write_image_data(samples).and_then(|()| writer.finish()))
        .expect("sizes were checked, and memory can be written to");
    file
}

fn encode_at(level: DeflateCompression, width: usize, height: usize, channels: usize, pixels: &[u8]) -> Vec<u8> {
    assert!(matches!(channels, 1 | 3), "{channels} channels, expected 1 or 3");
    assert!(!pixels.is_empty() && pixels.len() == width * height * channels, "the pixels do not fill the image");
    let mut file = Vec::new();
    let writer = encoder(&mut file, level, width, height, channels).write_header();
    writer
        .and_then(|mut writer| writer.write_image_data(pixels).and_then(|()| writer.finish()))
        .expect("sizes were checked, and memory can be written to");
    file
}

/// An encoder of 8-bit grey or RGB images.
pub(super) fn encoder(
    file: &mut Vec<u8>,
    level: DeflateCompression,
    width: usize,
    height: usize,
    channels: usize,
) -> Encoder<'static, &mut Vec<u8>> {
    set_up(Encoder::new(file, width as u32, height as u32), level, channels)
}

fn set_up<'a, W: Write>(mut encoder: Encoder<'a, W>, level: DeflateCompression, channels: usize) -> Encoder<'a, W> {
    encoder.set_color(if channels == 1 { ColorType::Grayscale } else { ColorType::Rgb });
    encoder.set_depth(BitDepth::Eight);
    encoder.set_deflate_compression(level);
    // Each byte less the one above it: good for images and for grids of them.
    encoder.set_filter(Filter::Up);
    encoder
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
