//! Images: decoding them within limits, resizing them, composing grids, writing PNG, and films as animated PNG or GIF.
//!
//! A decoded image is grey or RGB, 8 bits, and has the pixels that Pillow gives for the same file (tested bit for bit):
//! 16-bit samples keep their high byte, palettes are looked up, CMYK is converted as Pillow does. Transparency alone is
//! treated better: it is laid over white, where Pillow's `convert("RGB")` shows whatever lies below it. Pictures are turned upright
//! as their EXIF orientation says, as Pillow's `ImageOps.exif_transpose` does.
//!
//! | limit | value |
//! |---|---|
//! | width and height | [`MAX_SIDE`] |
//! | one allocation | [`MAX_ALLOCATION`] |
//! | decoded bytes per byte of the file | [`MAX_EXPANSION`] |

mod apng;
mod bmp;
mod chunks;
mod error;
mod exif;
mod film;
mod gif;
pub mod grid;
mod jpeg;
mod metadata;
mod photograph;
pub mod png;
mod png_decode;
mod pnm;
pub mod resize;
mod tiff;
mod webp;

pub use error::ImageError;
pub use film::{Film, FilmFormat, Frame};
pub use metadata::Metadata;
pub use photograph::PhotographFile;
pub use softdiff_engine::pixels::{PixelValue, Quantise, from_unit, to_unit};
use std::path::Path;

use softdiff_engine::memory::{self, NotEnoughMemory};
use softdiff_engine::regular_file;

/// The longest side of an image.
pub const MAX_SIDE: usize = 8192;
/// The most bytes that decoding may ask for at once.
pub const MAX_ALLOCATION: u64 = 256 << 20;
/// Deflate cannot give more than 1032 bytes for one, and JPEG at most 1024; a file that claims more is a lie.
pub const MAX_EXPANSION: u64 = 1100;
/// Headers and tables, which need no pixels.
const FREE_BYTES: u64 = 64 << 10;

/// A decoded image: 8 bits a sample, rows from the top, channels together (HWC).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// 1 (grey) or 3 (red, green, blue).
    pub channels: usize,
    /// `height * width * channels` samples.
    pub pixels: Vec<u8>,
}

/// A kind of image file, known by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Portable Network Graphics.
    Png,
    /// JPEG, baseline or progressive.
    Jpeg,
    /// WebP, lossy or lossless.
    WebP,
    /// Windows bitmap, uncompressed.
    Bmp,
    /// Portable anymap: PGM and PPM.
    Pnm,
    /// Graphics Interchange Format; of an animation the first image.
    Gif,
    /// Tagged Image File Format; of several images the first.
    Tiff,
}

impl Format {
    /// The format that these bytes begin like.
    pub fn recognise(bytes: &[u8]) -> Option<Format> {
        match bytes {
            [0x89, b'P', b'N', b'G', ..] => Some(Format::Png),
            [0xFF, 0xD8, 0xFF, ..] => Some(Format::Jpeg),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Format::WebP),
            [b'B', b'M', ..] => Some(Format::Bmp),
            [b'P', b'1'..=b'7', b' ' | b'\t' | b'\r' | b'\n' | b'#', ..] => Some(Format::Pnm),
            [b'G', b'I', b'F', b'8', ..] => Some(Format::Gif),
            [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => Some(Format::Tiff),
            _ => None,
        }
    }

    /// The name people know it by.
    pub fn name(self) -> &'static str {
        match self {
            Format::Png => "PNG",
            Format::Jpeg => "JPEG",
            Format::WebP => "WebP",
            Format::Bmp => "BMP",
            Format::Pnm => "PNM",
            Format::Gif => "GIF",
            Format::Tiff => "TIFF",
        }
    }
}

/// Whether a file of this name should be an image, readable or not.
pub fn is_picture_name(name: &str) -> bool {
    const ENDINGS: [&str; 16] = [
        "png", "jpg", "jpeg", "jpe", "webp", "bmp", "ppm", "pgm", "pnm", "gif", "tif", "tiff", "avif", "heic", "jxl",
        "jp2",
    ];
    let file = name.rsplit('/').next().unwrap_or_default();
    let ending = file.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    !file.starts_with('.') && ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
}

/// The bytes of a file that is nothing but an image, or is named like one; none of other files.
pub fn image_file(path: &Path) -> Option<Vec<u8>> {
    const LARGEST: u64 = 64 << 20;
    let bytes = regular_file::read(path, LARGEST).ok()?;
    (Format::recognise(&bytes).is_some() || is_picture_name(&path.to_string_lossy())).then_some(bytes)
}

/// Decodes an image of any known format, upright as its EXIF orientation says.
pub fn decode(bytes: &[u8]) -> Result<Picture, ImageError> {
    let picture = decode_as_stored(bytes)?;
    Ok(match exif::Orientation::of(bytes) {
        Some(orientation) => orientation.apply(picture),
        None => picture,
    })
}

/// Decodes an image of any known format, with its pixels where the file has them.
pub fn decode_as_stored(bytes: &[u8]) -> Result<Picture, ImageError> {
    decode_samples(bytes).map(over_white)
}

/// The same with the opacity as a second or fourth channel, where there is transparency.
fn decode_samples(bytes: &[u8]) -> Result<Picture, ImageError> {
    match Format::recognise(bytes) {
        Some(Format::Png) => png_decode::decode(bytes),
        Some(Format::Jpeg) => jpeg::decode(bytes),
        Some(Format::WebP) => webp::decode(bytes),
        Some(Format::Bmp) => bmp::decode(bytes),
        Some(Format::Pnm) => pnm::decode(bytes),
        Some(Format::Gif) => gif::decode(bytes),
        Some(Format::Tiff) => tiff::decode(bytes),
        None => Err(ImageError::unknown(bytes)),
    }
}

impl Picture {
    /// The image as the bytes of a PNG.
    pub fn to_png(&self) -> Vec<u8> {
        png::encode(self.width, self.height, self.channels, &self.pixels)
    }

    /// The same image in grey (1 channel) or colour (3).
    pub fn with_channels(self, channels: usize) -> Picture {
        let pixels = match (self.channels, channels) {
            (3, 1) => self.pixels.as_chunks::<3>().0.iter().map(|&rgb| luma(rgb)).collect(),
            (1, 3) => self.pixels.iter().flat_map(|&grey| [grey; 3]).collect(),
            _ => return self,
        };
        Picture { channels, pixels, ..self }
    }

    /// The image turned clockwise by so many quarters.
    pub fn turned(self, quarters: usize) -> Picture {
        exif::Orientation::of_quarters(quarters).apply(self)
    }

    /// The part of `width` x `height` pixels whose top left corner is (`left`, `top`); `None` if it does not fit.
    pub fn crop(&self, left: usize, top: usize, width: usize, height: usize) -> Option<Picture> {
        if left.checked_add(width)? > self.width || top.checked_add(height)? > self.height {
            return None;
        }
        let row = self.width * self.channels;
        let columns = left * self.channels..(left + width) * self.channels;
        let rows = self.pixels.chunks_exact(row).skip(top).take(height);
        let pixels = rows.flat_map(|row| &row[columns.clone()]).copied().collect();
        Some(Picture { width, height, channels: self.channels, pixels })
    }
}

/// Luminance of ITU-R 601-2 in 16-bit fixed point, as Pillow's `convert("L")`.
fn luma([red, green, blue]: [u8; 3]) -> u8 {
    ((u32::from(red) * 19_595 + u32::from(green) * 38_470 + u32::from(blue) * 7_471 + 0x8000) >> 16) as u8
}

/// An image of 1 to 4 channels, the second or fourth of which is the opacity, over white.
fn over_white(image: Picture) -> Picture {
    let colours = match image.channels {
        2 => 1,
        4 => 3,
        _ => return image,
    };
    let visible = |pixel: &[u8], channel: usize| {
        let alpha = u32::from(pixel[colours]);
        ((u32::from(pixel[channel]) * alpha + 255 * (255 - alpha) + 127) / 255) as u8
    };
    let all = image.pixels.chunks_exact(colours + 1);
    let pixels = all.flat_map(|pixel| (0..colours).map(move |channel| visible(pixel, channel))).collect();
    Picture { channels: colours, pixels, ..image }
}

/// Refuses sizes beyond the limits, before anything is allocated; gives the bytes of the decoded picture. `stored_bits` is
/// what a pixel takes in the file once unpacked: less than decoded, when it is an index into a palette.
fn check_size(width: u64, height: u64, decoded: u64, stored_bits: u64, file: &[u8]) -> Result<usize, ImageError> {
    if width == 0 || height == 0 {
        return Err(ImageError::Empty { width, height });
    }
    if width > MAX_SIDE as u64 || height > MAX_SIDE as u64 {
        return Err(ImageError::Side { width, height, limit: MAX_SIDE as u64 });
    }
    let bytes = width * height * decoded;
    if bytes > MAX_ALLOCATION {
        return Err(ImageError::Allocation { bytes, limit: MAX_ALLOCATION });
    }
    let file = file.len() as u64;
    if width * height * stored_bits / 8 > file * MAX_EXPANSION + FREE_BYTES {
        return Err(ImageError::Claims { width, height, file });
    }
    check_memory(bytes, || format!("an image of {width} x {height}"))?;
    Ok(bytes as usize)
}

/// Refuses an image of so many decoded bytes that does not fit into memory. Decoders have coefficients or samples of two bytes
/// beside the pixels, and turning an image takes a copy of it.
fn check_memory(bytes: u64, what: impl FnOnce() -> String) -> Result<(), NotEnoughMemory> {
    memory::require(4 * bytes, what(), "give a smaller image")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grey_is_pillows_and_colour_of_grey_is_grey() {
        // Image.new("RGB", (1, 1), rgb).convert("L")
        for (rgb, grey) in [([255, 0, 0], 76), ([0, 255, 0], 150), ([0, 0, 255], 29), ([1, 2, 3], 2), ([255; 3], 255)] {
            assert_eq!(luma(rgb), grey);
        }
        let grey = Picture { width: 2, height: 1, channels: 1, pixels: vec![3, 200] };
        assert_eq!(grey.clone().with_channels(3).with_channels(1), grey);
    }

    #[test]
    fn a_crop_beyond_the_edge_is_none() {
        let picture = Picture { width: 3, height: 2, channels: 1, pixels: vec![0, 1, 2, 3, 4, 5] };
        assert_eq!(picture.crop(1, 0, 2, 2).unwrap().pixels, [1, 2, 4, 5]);
        assert_eq!(picture.crop(2, 0, 2, 2), None);
        assert_eq!(picture.crop(usize::MAX, 0, 2, 2), None);
    }

    #[test]
    fn a_quarter_turns_clockwise_and_four_turn_nothing() {
        let picture = Picture { width: 3, height: 2, channels: 1, pixels: vec![0, 1, 2, 3, 4, 5] };
        let turned = |quarters| picture.clone().turned(quarters);
        assert_eq!(turned(1), Picture { width: 2, height: 3, channels: 1, pixels: vec![3, 0, 4, 1, 5, 2] });
        assert_eq!(turned(2).pixels, [5, 4, 3, 2, 1, 0]);
        assert_eq!(turned(3), turned(1).turned(2));
        assert_eq!(turned(4), picture);
    }

    #[test]
    fn names_of_pictures_are_known_by_their_ending() {
        assert!(is_picture_name("a/b.PNG") && is_picture_name("x.tar.jpeg") && is_picture_name("old.gif"));
        assert!(!is_picture_name("a.png/readme") && !is_picture_name("png") && !is_picture_name("a/._b.png"));
    }
}
