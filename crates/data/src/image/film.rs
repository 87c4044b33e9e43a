//! Films: images of one size, one after the other.

use super::{Picture, apng, gif};

/// Images of one size that are shown for a while each, again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Film {
    width: usize,
    height: usize,
    channels: usize,
    frames: Vec<Frame>,
}

/// One image of a film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its samples, as those of a [`Picture`].
    pub pixels: Vec<u8>,
    /// How long it is shown.
    pub milliseconds: u16,
}

/// The formats of films, each known by the ending of a file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilmFormat {
    /// Animated PNG: every sample is kept.
    Apng,
    /// GIF: all grey values, or 256 colours.
    Gif,
}

impl FilmFormat {
    /// The format of a file whose name ends so: `png`, `apng` or `gif`.
    pub fn of_ending(ending: &str) -> Option<FilmFormat> {
        match ending.to_ascii_lowercase().as_str() {
            "png" | "apng" => Some(FilmFormat::Apng),
            "gif" => Some(FilmFormat::Gif),
            _ => None,
        }
    }
}

impl Film {
    /// A film of pictures and how many milliseconds each is shown; `None` where there are none, or of several sizes.
    pub fn new(pictures: Vec<(Picture, u16)>) -> Option<Film> {
        let (first, _) = pictures.first()?;
        let (width, height, channels) = (first.width, first.height, first.channels);
        let alike = |p: &Picture| (p.width, p.height, p.channels) == (width, height, channels);
        // Both formats count the sides in few bits.
        let sound = pictures.iter().all(|(picture, _)| alike(picture)) && width * height > 0;
        let fits = width <= usize::from(u16::MAX) && height <= usize::from(u16::MAX);
        let frames = pictures.into_iter().map(|(picture, milliseconds)| Frame { pixels: picture.pixels, milliseconds });
        (sound && fits && matches!(channels, 1 | 3)).then(|| Film { width, height, channels, frames: frames.collect() })
    }

    /// Pixels in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// 1 (grey) or 3 (red, green, blue).
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Its images.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The film as a file.
    pub fn encode(&self, format: FilmFormat) -> Vec<u8> {
        match format {
            FilmFormat::Apng => apng::encode(self),
            FilmFormat::Gif => gif::encode(self),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Three images that have something in common with each other and something not.
    pub fn example(width: usize, height: usize, channels: usize) -> Film {
        let picture = |number: usize| Picture {
            width,
            height,
            channels,
            pixels: (0..width * height * channels).map(|i| (i * i / 7 + number * (i % 5) * 40) as u8).collect(),
        };
        Film::new(vec![(picture(0), 70), (picture(1), 70), (picture(2), 2000)]).unwrap()
    }

    #[test]
    fn pictures_of_several_sizes_and_no_pictures_are_no_film() {
        let picture = |width, channels| Picture { width, height: 1, channels, pixels: vec![0; width * channels] };
        assert!(Film::new(vec![]).is_none());
        assert!(Film::new(vec![(picture(2, 1), 50), (picture(3, 1), 50)]).is_none());
        assert!(Film::new(vec![(picture(2, 2), 50)]).is_none());
        assert!(Film::new(vec![(picture(2, 3), 50)]).is_some());
    }

    #[test]
    fn the_ending_of_a_name_decides_the_format() {
        assert_eq!(FilmFormat::of_ending("GIF"), Some(FilmFormat::Gif));
        assert_eq!(FilmFormat::of_ending("png"), Some(FilmFormat::Apng));
        assert_eq!(FilmFormat::of_ending("mp4"), None);
    }
}
