//! An image file with all that its restored version should keep.

use super::{Format, ImageError, Metadata, Picture, decode_samples, exif::Orientation, png, resize, tiff};

/// An image file: its colours, opacity and metadata apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhotographFile {
    /// The colours, upright, also where nothing is seen of them.
    pub picture: Picture,
    /// The opacity of each pixel as a grey image of the same size, where a PNG, WebP or TIFF has it. What is transparent in
    /// a GIF is white.
    pub alpha: Option<Picture>,
    /// What else the file says, of upright pixels.
    pub metadata: Metadata,
    /// Whether the file has samples of 16 bits, of which the picture has the high 8.
    pub is_16_bit: bool,
    /// The quantization table of a JPEG's luma, row by row.
    pub quantization: Option<[u16; 64]>,
}

impl PhotographFile {
    /// An image that comes from no file.
    pub fn from_picture(picture: Picture) -> PhotographFile {
        PhotographFile { picture, alpha: None, metadata: Metadata::default(), is_16_bit: false, quantization: None }
    }

    /// Decodes a file as [`super::decode`] does, but for transparency.
    pub fn read(bytes: &[u8]) -> Result<PhotographFile, ImageError> {
        let stored = decode_samples(bytes)?;
        let upright = match Orientation::of(bytes) {
            Some(orientation) => orientation.apply(stored),
            None => stored,
        };
        let (picture, alpha) = split(upright);
        let is_16_bit = match Format::recognise(bytes) {
            Some(Format::Png) => bytes.get(24) == Some(&16),
            Some(Format::Tiff) => tiff::is_16_bit(bytes),
            _ => false,
        };
        let is_jpeg = Format::recognise(bytes) == Some(Format::Jpeg);
        let quantization = is_jpeg.then(|| softdiff_jpeg::quantization(bytes).ok()).flatten();
        let metadata = Metadata::of(bytes).upright();
        Ok(PhotographFile { picture, alpha, metadata, is_16_bit, quantization })
    }

    /// Another version of it as a PNG with the opacity, scaled to its size, and the metadata.
    pub fn to_png(&self, version: &Picture) -> Vec<u8> {
        let alpha = self.alpha.as_ref().map(|alpha| resize::bilinear(alpha, version.width, version.height).pixels);
        png::encode_with(version, alpha.as_deref(), &self.metadata)
    }
}

/// The colours of an image of 1 to 4 channels, and its opacity where it has 2 or 4.
fn split(image: Picture) -> (Picture, Option<Picture>) {
    let Picture { width, height, channels, pixels } = &image;
    if !matches!(channels, 2 | 4) {
        return (image, None);
    }
    let (width, height, colours) = (*width, *height, channels - 1);
    let all = pixels.chunks_exact(*channels);
    let colour = all.clone().flat_map(|pixel| &pixel[..colours]).copied().collect();
    let alpha = all.map(|pixel| pixel[colours]).collect();
    let picture = |channels, pixels| Picture { width, height, channels, pixels };
    (picture(colours, colour), Some(picture(1, alpha)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opacity_and_hidden_colours_are_kept_and_follow_the_size() {
        for channels in [1, 3] {
            let pixels: Vec<u8> = (0..6 * channels).map(|i| (i * 37) as u8).collect();
            let picture = Picture { width: 3, height: 2, channels, pixels };
            let alpha = [0, 255, 7, 0, 128, 255];
            let file = PhotographFile::read(&png::encode_with(&picture, Some(&alpha), &Metadata::default())).unwrap();
            assert_eq!((&file.picture, file.is_16_bit), (&picture, false));
            assert_eq!(file.alpha.as_ref().unwrap().pixels, alpha);
            let again = PhotographFile::read(&file.to_png(&picture)).unwrap();
            assert_eq!(again, file);
            let larger = resize::bilinear(&picture, 6, 4);
            let larger = PhotographFile::read(&file.to_png(&larger)).unwrap();
            assert_eq!(larger.alpha.unwrap().pixels.len(), 24);
        }
    }
}
