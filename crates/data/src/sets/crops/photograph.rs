//! One decoded photograph, and the crops that are drawn from it.

use super::super::dataset::Sums;
use crate::image::{Picture, resize};
use softdiff_engine::hash::ContentHash;
use softdiff_engine::rng::RandomStream;

/// Photographs whose short side is at least this are halved: most are JPEGs, and halving removes most of their artefacts.
const HALVED: usize = 800;
/// The smallest scale of a crop; the largest is 1.
const SMALLEST_SCALE: f64 = 0.5;
/// A crop is flat if the standard deviation of its channels, root mean square over the channels, is below this.
const FLAT: f64 = 4.0 / 255.0;
/// Every so many-th crop is taken as it is drawn, flat or not; the others are drawn again while they are flat.
const ANY: usize = 10;
/// Draws of a crop before a place is taken that is known not to be flat.
const DRAWS: usize = 256;
/// Crops looked at to find out how much of a photograph is flat.
const PROBES: usize = 64;
/// A photograph of which fewer of them are not flat is not used.
const FEWEST: usize = 4;

/// The content of a photograph, by which it is recognised, held out, and its crops are drawn.
pub fn content(picture: &Picture) -> ContentHash {
    let sizes = [picture.width, picture.height, picture.channels].map(|size| size as f64);
    ContentHash::of_parts([ContentHash::of_values(sizes), ContentHash::of(&picture.pixels)])
}

/// A decoded photograph.
pub struct Photograph {
    /// Its pixels, in the colours of the crops.
    pub picture: Picture,
    /// Its content as decoded, before its colours were changed.
    pub content: ContentHash,
    /// Side of the crops.
    pub side: usize,
    /// What they are drawn from.
    pub seed: u64,
}

/// How much of a photograph can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texture {
    /// Of [`PROBES`] crops, those that are not flat.
    pub share: usize,
    /// The number of one of them.
    pub known: usize,
}

impl Photograph {
    /// Pixels of the photograph once it is halved, if it is.
    pub fn area(&self) -> u64 {
        let Picture { width, height, .. } = self.picture;
        (width * height) as u64 / if width.min(height) >= HALVED { 4 } else { 1 }
    }

    /// How much of it is not flat; `None` if next to nothing is.
    pub fn texture(&self) -> Option<Texture> {
        let textured = |&number: &usize| !is_flat(&self.cut(&mut self.stream(number)));
        let textured: Vec<usize> = (0..PROBES).filter(textured).collect();
        let texture = Texture { share: textured.len(), known: *textured.first()? };
        (texture.share >= FEWEST).then_some(texture)
    }

    /// Crop number `number`.
    pub fn crop(&self, number: usize, texture: Texture) -> Picture {
        let mut stream = self.stream(number);
        let first = self.cut(&mut stream);
        if number % ANY == ANY - 1 || !is_flat(&first) {
            return first;
        }
        let others = (1..DRAWS).map(|_| self.cut(&mut stream)).find(|crop| !is_flat(crop));
        others.unwrap_or_else(|| self.cut(&mut self.stream(texture.known)))
    }

    /// What the places of a crop are drawn from, one after the other.
    fn stream(&self, number: usize) -> RandomStream {
        RandomStream::numbered(self.seed, &format!("crop of {}", self.content), number)
    }

    /// The next place, cut out: a square of the photograph, made smaller by the scale and turned.
    fn cut(&self, stream: &mut RandomStream) -> Picture {
        let Picture { width, height, .. } = self.picture;
        let short = width.min(height);
        let halving = if short >= HALVED { 0.5 } else { 1.0 };
        let scale = SMALLEST_SCALE + (1.0 - SMALLEST_SCALE) * stream.uniform();
        let part = ((self.side as f64 / (halving * scale)).round() as usize).clamp(self.side, short);
        let (left, top) = (stream.below(width - part + 1), stream.below(height - part + 1));
        let crop = resize::bilinear_part(&self.picture, left, top, part, self.side);
        crop.expect("the place lies in the photograph").turned(stream.below(4))
    }
}

/// Whether a crop shows next to nothing, such as sky.
pub fn is_flat(crop: &Picture) -> bool {
    let channels = Sums::of(&crop.pixels, crop.channels).statistics(crop.channels);
    let variance = channels.iter().map(|channel| channel.std * channel.std).sum::<f64>() / channels.len() as f64;
    variance < FLAT * FLAT
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise of the given size; the left part of it flat.
    fn photograph(width: usize, height: usize, flat: usize) -> Photograph {
        let sample =
            |at: usize| if at % width < flat { 90 } else { ((at as u32).wrapping_mul(2_654_435_761) >> 24) as u8 };
        let picture = Picture { width, height, channels: 1, pixels: (0..width * height).map(sample).collect() };
        let content = content(&picture);
        Photograph { picture, content, side: 16, seed: 3 }
    }

    #[test]
    fn at_most_a_tenth_of_the_crops_of_a_photograph_is_flat() {
        for flat in [0, 100, 150, 175] {
            let photograph = photograph(200, 120, flat);
            let texture = photograph.texture().unwrap();
            let count = (0..200).filter(|&number| is_flat(&photograph.crop(number, texture))).count();
            assert!(count <= 20, "{count} of 200 with {flat} of 200 columns flat");
        }
        assert_eq!(photograph(200, 120, 200).texture(), None);
    }

    #[test]
    fn a_photograph_as_small_as_a_crop_gives_it_turned() {
        let small = photograph(16, 16, 0);
        let crop = small.crop(0, small.texture().unwrap());
        assert!((0..4).any(|quarters| crop == small.picture.clone().turned(quarters)));
    }
}
