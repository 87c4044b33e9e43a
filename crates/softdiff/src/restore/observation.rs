//! What was seen of an image: the tasks that people know by name are maps.

use super::{RestoreError, Result};
use crate::corruption::{Corruption, Decolourisation, Grey, LinearMap, Shape, ShrinkFilter, Shrinking};
use crate::path::Path;

/// Standard deviation of the rounding to 8 bits, for values in [0, 1]: the least noise that a picture has.
pub const QUANTISATION: f64 = 1.0 / 255.0 / 3.464_101_615_137_754_6;

/// A [misfit](Observation::misfit) above this means that the map, its level, its boundary or the noise is not the picture's.
pub const POOR_FIT: f64 = 2.0;

/// `y = A x_0 + s e`: the map A, the deviation s of its noise, and y, at the size of the model's images.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    shape: Shape,
    map: LinearMap,
    sigma: f64,
    values: Vec<f64>,
    copies: f64,
}

impl Observation {
    /// Any map; noise below that of 8 bits is taken as that.
    pub fn new(shape: Shape, map: LinearMap, sigma: f64, values: Vec<f64>) -> Result<Observation> {
        if values.len() != shape.len() {
            return Err(RestoreError::Size { found: values.len(), shape });
        }
        if !(sigma >= 0.0 && sigma.is_finite()) {
            let remedy = "give a deviation from 0 on, for values from 0 to 1";
            return Err(RestoreError::Number { what: "the noise of the observation", value: sigma, remedy });
        }
        map.check(shape)?;
        Ok(Observation { shape, map, sigma: sigma.max(QUANTISATION), values, copies: 1.0 })
    }

    /// The path's own corruption at time t.
    pub fn on_path(path: &Path, t: f64, sigma: f64, values: Vec<f64>) -> Result<Observation> {
        Observation::new(path.shape(), path.at(t)?.map, sigma, values)
    }

    /// A picture of which some pixels are missing: `known` tells for each pixel whether it was seen.
    pub fn masked(shape: Shape, known: &[bool], sigma: f64, mut values: Vec<f64>) -> Result<Observation> {
        if known.len() != shape.pixels() {
            return Err(RestoreError::Size { found: known.len() * shape.channels, shape });
        }
        let pixels = values.chunks_exact_mut(shape.channels.max(1)).zip(known);
        pixels.filter(|(_, known)| !**known).for_each(|(pixel, _)| pixel.fill(0.0));
        let weights = known.iter().map(|&known| if known { 1.0 } else { 0.0 }).collect();
        Observation::new(shape, LinearMap::PixelDiagonal(weights), sigma, values)
    }

    /// A small image, whose pixels come from the image by a filter.
    pub fn shrunk(shape: Shape, small: Shape, filter: ShrinkFilter, sigma: f64, values: &[f64]) -> Result<Observation> {
        let (down, across) = (shape.height / small.height.max(1), shape.width / small.width.max(1));
        let whole = (small.height * down, small.width * across, small.channels);
        if whole != (shape.height, shape.width, shape.channels) || down * across == 0 {
            return Err(RestoreError::Fraction { found: small, shape });
        }
        if values.len() != small.len() {
            return Err(RestoreError::Size { found: values.len(), shape: small });
        }
        let (row, channels) = (small.width * small.channels, small.channels);
        let value = |i: usize| {
            let (y, x, channel) = (i / (shape.width * channels), i / channels % shape.width, i % channels);
            values[y / down * row + x / across * channels + channel]
        };
        let map = Shrinking::new(shape, (small.height, small.width), filter).map();
        Observation::repeated(shape, map, sigma, (0..shape.len()).map(value).collect(), down * across)
    }

    /// A picture without its colours: `grey` has one value per pixel.
    pub fn decoloured(shape: Shape, kind: Grey, sigma: f64, grey: &[f64]) -> Result<Observation> {
        let corruption = Decolourisation::new(shape, kind)?;
        let map = corruption.at(corruption.levels().full)?;
        let values = grey.iter().flat_map(|&value| std::iter::repeat_n(value, shape.channels)).collect();
        Observation::repeated(shape, map, sigma, values, shape.channels)
    }

    /// Every value is seen so many times, with one error: together they weigh as one.
    fn repeated(shape: Shape, map: LinearMap, sigma: f64, values: Vec<f64>, copies: usize) -> Result<Observation> {
        let copies = copies as f64;
        let sigma = sigma.max(QUANTISATION) * copies.sqrt();
        Ok(Observation { copies, ..Observation::new(shape, map, sigma, values)? })
    }

    /// How many times each value is seen: as many as the pixels that one of a small image, or the channels that one of a grey image
    /// stands for.
    pub fn copies(&self) -> f64 {
        self.copies
    }

    /// The images it is of.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// A.
    pub fn map(&self) -> &LinearMap {
        &self.map
    }

    /// s.
    pub fn sigma(&self) -> f64 {
        self.sigma
    }

    /// y.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Whether pixels were seen as they are, without noise.
    pub(super) fn knows_pixels(&self) -> bool {
        matches!(self.map, LinearMap::PixelDiagonal(_)) && self.sigma <= QUANTISATION
    }

    /// Sets the pixels of images that were seen as they are, without noise: the known ones of a masked picture. Other observations have none.
    pub(super) fn set_known(&self, images: &mut [f64], to: &[f64]) {
        let LinearMap::PixelDiagonal(weights) = &self.map else { return };
        if !self.knows_pixels() {
            return;
        }
        let channels = self.shape.channels.max(1);
        for image in images.chunks_exact_mut(self.shape.len().max(1)) {
            let pixels = image.chunks_exact_mut(channels).zip(to.chunks_exact(channels)).zip(weights.iter());
            pixels.filter(|(_, weight)| **weight == 1.0).for_each(|((x, to), _)| x.copy_from_slice(to));
        }
    }

    /// The root of the mean of `(y - A x)^2` in units of s: about 1 for an image that explains what was seen.
    pub fn misfit(&self, x: &[f64]) -> Result<f64> {
        let seen = self.map.apply(self.shape, x)?;
        let squares: f64 = seen.iter().zip(&self.values).map(|(a, b)| (a - b).powi(2)).sum();
        Ok((squares / seen.len() as f64).sqrt() / self.sigma)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { height: 4, width: 6, channels: 3 };

    fn image() -> Vec<f64> {
        (0..SHAPE.len()).map(|i| (i * 37 % 101) as f64 / 100.0).collect()
    }

    #[test]
    fn what_is_made_from_an_image_fits_that_image() {
        let x = image();
        let small: Vec<f64> = (0..2 * 2 * 3)
            .map(|i| {
                let (row, col, channel) = (i / 6, i / 3 % 2, i % 3);
                let pixels = (0..2).flat_map(|y| (0..3).map(move |x| (2 * row + y, 3 * col + x)));
                pixels.map(|(y, x_)| x[(y * 6 + x_) * 3 + channel]).sum::<f64>() / 6.0
            })
            .collect();
        let grey: Vec<f64> = x.chunks(3).map(|p| 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2]).collect();
        let known: Vec<bool> = (0..24).map(|i| i % 5 != 0).collect();
        for observation in [
            Observation::shrunk(SHAPE, Shape::new(2, 2, 3), ShrinkFilter::Box, 0.0, &small).unwrap(),
            Observation::decoloured(SHAPE, Grey::Luma, 0.0, &grey).unwrap(),
            Observation::masked(SHAPE, &known, 0.0, x.clone()).unwrap(),
        ] {
            assert!(observation.misfit(&x).unwrap() < 1e-9);
            let other: Vec<f64> = x.iter().map(|v| 1.0 - v).collect();
            assert!(observation.misfit(&other).unwrap() > 10.0);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(Observation::new(SHAPE, LinearMap::Identity, 0.1, vec![0.0; 5]).is_err());
        assert!(Observation::new(SHAPE, LinearMap::Identity, f64::NAN, image()).is_err());
        assert!(Observation::masked(SHAPE, &[true; 5], 0.1, image()).is_err());
        assert!(Observation::shrunk(SHAPE, Shape::new(3, 3, 3), ShrinkFilter::Box, 0.1, &[0.0; 27]).is_err());
        assert!(Observation::shrunk(SHAPE, Shape::new(8, 12, 3), ShrinkFilter::Box, 0.1, &[0.0; 288]).is_err());
    }

    #[test]
    fn a_picture_has_at_least_the_noise_of_its_8_bits() {
        let exact = Observation::new(SHAPE, LinearMap::Identity, 0.0, image()).unwrap();
        assert!((exact.sigma() * 255.0 - (1.0f64 / 12.0).sqrt()).abs() < 1e-12);
    }
}
