//! What is done to each image on its way into the data set: colours, crop, size, in this order.

use super::FileError;
use crate::image::{Picture, resize};
use std::fmt;
use std::str::FromStr;

/// Which part of an image is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Crop {
    /// All of it.
    #[default]
    None,
    /// The largest centred part with the proportions of the target size; a square when there is no target.
    Centre,
    /// The usual crop of aligned CelebA: 140 x 140 of 178 x 218, or 70 x 70 of its half-size copies (89 x 109).
    Celeba,
    /// A centred part of this width and height.
    Size(usize, usize),
}

/// Widths, heights and the side of the square kept, of the full and of the half-size CelebA.
const CELEBA: [(usize, usize, usize); 2] = [(178, 218, 140), (89, 109, 70)];

impl fmt::Display for Crop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Crop::None => f.write_str("none"),
            Crop::Centre => f.write_str("centre"),
            Crop::Celeba => f.write_str("celeba"),
            Crop::Size(width, height) => write!(f, "{width}x{height}"),
        }
    }
}

impl FromStr for Crop {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Crop::None),
            "centre" | "center" => Ok(Crop::Centre),
            "celeba" => Ok(Crop::Celeba),
            _ => {
                let sizes =
                    text.split_once('x').and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
                let (width, height) = sizes.ok_or("expected none, centre, celeba, or a size like 140x140")?;
                if width == 0 || height == 0 {
                    return Err("a crop needs at least one pixel".into());
                }
                Ok(Crop::Size(width, height))
            }
        }
    }
}

impl Crop {
    /// The crop asked for, else the usual one: a size keeps the proportions, so what does not fit is cut off.
    pub fn or_usual(asked: Option<Crop>, size: Option<(usize, usize)>) -> Crop {
        asked.unwrap_or(if size.is_some() { Crop::Centre } else { Crop::None })
    }

    /// Left, top, width and height of the part of an image that is kept.
    fn part(self, width: usize, height: usize, target: Option<(usize, usize)>) -> Option<(usize, usize, usize, usize)> {
        let (part_width, part_height) = match self {
            Crop::None => (width, height),
            Crop::Celeba => {
                let side = CELEBA.iter().find(|&&(w, h, _)| (w, h) == (width, height))?.2;
                (side, side)
            }
            Crop::Size(part_width, part_height) => (part_width, part_height),
            Crop::Centre => {
                let (w, h) = target.unwrap_or((1, 1));
                if width * h <= height * w {
                    (width, (width * h / w).max(1))
                } else {
                    ((height * w / h).max(1), height)
                }
            }
        };
        // Rounded down: CelebA at half size begins at (9, 19), half a pixel up and left of the centre.
        Some((width.checked_sub(part_width)? / 2, height.checked_sub(part_height)? / 2, part_width, part_height))
    }
}

/// The whole treatment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transform {
    /// The part to keep.
    pub crop: Crop,
    /// Width and height to resize to (antialiased bilinear, as Pillow); none keeps the size.
    pub size: Option<(usize, usize)>,
    /// 1 for grey, 3 for RGB; none keeps what the images have.
    pub channels: Option<usize>,
}

impl Transform {
    /// Whether images of this size stay as they are.
    pub(super) fn keeps(&self, width: usize, height: usize, channels: usize) -> bool {
        self.channels.is_none_or(|wanted| wanted == channels)
            && self.size.is_none_or(|size| size == (width, height))
            && self.crop.part(width, height, self.size) == Some((0, 0, width, height))
    }

    /// Treats one image.
    pub fn apply(&self, picture: Picture) -> Result<Picture, FileError> {
        let (width, height) = (picture.width, picture.height);
        let mut picture = match self.channels {
            Some(channels) => picture.with_channels(channels),
            None => picture,
        };
        let misfit = || FileError::Crop { width, height, crop: self.crop.to_string() };
        let (left, top, part_width, part_height) = self.crop.part(width, height, self.size).ok_or_else(misfit)?;
        if (part_width, part_height) != (width, height) {
            picture = picture.crop(left, top, part_width, part_height).ok_or_else(misfit)?;
        }
        if let Some((width, height)) = self.size {
            picture = resize::bilinear(&picture, width, height);
        }
        Ok(picture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn celeba_crops_lie_where_everybody_has_them() {
        assert_eq!(Crop::Celeba.part(178, 218, None), Some((19, 39, 140, 140)));
        assert_eq!(Crop::Celeba.part(89, 109, None), Some((9, 19, 70, 70)));
        assert_eq!(Crop::Celeba.part(100, 100, None), None);
    }

    #[test]
    fn the_centre_has_the_proportions_of_the_target() {
        assert_eq!(Crop::Centre.part(100, 60, None), Some((20, 0, 60, 60)));
        assert_eq!(Crop::Centre.part(100, 60, Some((32, 64))), Some((35, 0, 30, 60)));
        assert_eq!(Crop::Centre.part(60, 100, Some((64, 32))), Some((0, 35, 60, 30)));
        assert_eq!(Crop::Centre.part(1, 8000, Some((8000, 1))), Some((0, 3999, 1, 1)));
        assert_eq!(Crop::Size(50, 61).part(100, 60, None), None);
    }

    #[test]
    fn crops_are_written_as_they_are_read() {
        for text in ["none", "centre", "celeba", "140x100"] {
            assert_eq!(text.parse::<Crop>().unwrap().to_string(), text);
        }
        for text in ["", "big", "0x3", "3x", "-1x2"] {
            assert!(text.parse::<Crop>().is_err(), "{text}");
        }
    }
}
