//! How images differ from their mean before anything is seen of them.

use super::solve::System;
use super::{Observation, RestoreError, Result};
use crate::corruption::{CosineFilter, LinearMap, Shape};
use crate::linalg::{Matrix, dot};
use rayon::prelude::*;
use softdiff_engine::rng::RandomStream;
use std::borrow::Cow;

/// What an image's variance may be: next to nothing, and that of black and white.
const LEAST: f64 = 1e-3;
const MOST: f64 = 0.25;

/// Correlation of a photograph's channels: CIFAR-10's are 0.78 to 0.91.
const CORRELATION: f64 = 0.87;

/// The root of a covariance of images, S = R R.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageCovariance {
    root: LinearMap,
    /// The variance of each frequency of the cosine basis, and the correlation of the channels; none for white images.
    powers: Option<(Vec<f64>, f64)>,
}

impl ImageCovariance {
    /// Independent values of one variance: S = v I.
    pub fn white(variance: f64) -> Result<ImageCovariance> {
        Ok(ImageCovariance { root: LinearMap::Scale(check(variance)?.sqrt()), powers: None })
    }

    /// The power of photographs, `1 / (1 + k^2)` at frequency k (Field 1987), with `variance` as the mean over an image;
    /// their channels go together.
    pub fn natural(shape: Shape, variance: f64) -> Result<ImageCovariance> {
        let variance = check(variance)?;
        let side = shape.height.max(shape.width) as f64;
        let power = |index: usize| {
            let (k, l) = (index / shape.width, index % shape.width);
            let (k, l) = (k as f64 / shape.height as f64, l as f64 / shape.width as f64);
            1.0 / (1.0 + side * side * (k * k + l * l))
        };
        let powers: Vec<f64> = (0..shape.pixels()).map(power).collect();
        let mean = powers.iter().sum::<f64>() / powers.len().max(1) as f64;
        let spread = Self::of_powers(shape, &powers.iter().map(|p| p / mean * variance).collect::<Vec<f64>>());
        Ok(match shape.channels {
            1 => spread,
            n => ImageCovariance {
                root: LinearMap::Compose(vec![spread.root, LinearMap::ChannelMix(correlated_root(n))]),
                powers: spread.powers.map(|(powers, _)| (powers, CORRELATION)),
            },
        })
    }

    /// The power of photographs, scaled to match what was seen: images of this spread, seen through A, vary as
    /// much as y does.
    pub fn fitting(observation: &Observation) -> Result<ImageCovariance> {
        let (shape, map) = (observation.shape(), observation.map());
        // One draw of a photograph tells as much as many of a small image.
        let draws = (16 * 4096 / shape.pixels().max(1)).clamp(1, 16);
        let unit = ImageCovariance::natural(shape, 1.0)?;
        let flat = map.apply(shape, &vec![1.0; shape.len()])?;
        // What is left when the best flat image is taken away.
        let varying = |seen: &[f64]| {
            let level = level(seen, &flat);
            seen.iter().zip(&flat).map(|(y, f)| (y - level * f).powi(2)).sum::<f64>()
        };
        let mut expected = 0.0;
        for draw in 0..draws {
            let white = RandomStream::numbered(0, "images of a spread", draw).normals(shape.len());
            expected += varying(&map.apply(shape, &unit.root.apply(shape, &white)?)?) / draws as f64;
        }
        let noise = shape.len() as f64 * observation.sigma().powi(2);
        let variance = (varying(observation.values()) - noise) / expected.max(f64::MIN_POSITIVE);
        Self::natural(shape, variance.clamp(LEAST, MOST))
    }

    /// The variance of each frequency of the cosine basis, row by row, the same for all channels.
    pub fn of_powers(shape: Shape, powers: &[f64]) -> ImageCovariance {
        let powers: Vec<f64> = powers.iter().map(|power| power.max(0.0)).collect();
        let root = CosineFilter::new(shape, powers.iter().map(|power| power.sqrt()).collect()).map();
        ImageCovariance { root, powers: Some((powers, 0.0)) }
    }

    /// `c S`.
    pub(super) fn scaled(&self, c: f64) -> ImageCovariance {
        let root = match &self.root {
            LinearMap::Scale(root) => LinearMap::Scale(root * c.sqrt()),
            root => LinearMap::Compose(vec![root.clone(), LinearMap::Scale(c.sqrt())]),
        };
        let scaled = |powers: &Vec<f64>| powers.iter().map(|power| c * power).collect();
        ImageCovariance {
            root,
            powers: self.powers.as_ref().map(|(powers, correlation)| (scaled(powers), *correlation)),
        }
    }

    /// A Gaussian image of this spread about the best flat one, given what was seen: drawn as if nothing had been, then
    /// corrected by what was (Matheron's rule).
    pub fn draw(&self, observation: &Observation, stream: &mut RandomStream) -> Result<Vec<f64>> {
        let (shape, map) = (observation.shape(), observation.map());
        let flat = map.apply(shape, &vec![1.0; shape.len()])?;
        let level = level(observation.values(), &flat);
        let mut x = self.root.apply(shape, &stream.normals(shape.len()))?;
        x.iter_mut().for_each(|x| *x += level);
        // The drawn image is seen with noise of its own.
        let noisy: Vec<f64> = observation.values().iter().map(|y| y + observation.sigma() * stream.normal()).collect();
        let shift = System { observation, spread: self, path_term: None }.solve(&x, &noisy)?;
        x.iter_mut().zip(shift).for_each(|(x, d)| *x += d);
        Ok(x)
    }

    /// The mean of Gaussian images of this spread about the best flat one, given what was seen.
    pub fn expected(&self, observation: &Observation) -> Result<Vec<f64>> {
        let (shape, map) = (observation.shape(), observation.map());
        let flat = map.apply(shape, &vec![1.0; shape.len()])?;
        let mut x = vec![level(observation.values(), &flat); shape.len()];
        let shift = System { observation, spread: self, path_term: None }.solve(&x, observation.values())?;
        x.iter_mut().zip(shift).for_each(|(x, d)| *x += d);
        Ok(x)
    }

    /// The variance of each frequency of the cosine basis: of what is common to all channels, and of what is not.
    pub(super) fn powers(&self, shape: Shape) -> [Vec<f64>; 2] {
        let (powers, correlation) = match (&self.powers, &self.root) {
            (Some((powers, correlation)), _) => (Cow::Borrowed(powers), *correlation),
            (None, LinearMap::Scale(root)) => (Cow::Owned(vec![root * root; shape.pixels()]), 0.0),
            _ => unreachable!("a covariance without powers is white"),
        };
        let [together, apart] = [1.0 + (shape.channels as f64 - 1.0) * correlation, 1.0 - correlation];
        [together, apart].map(|factor| powers.par_iter().map(|power| factor * power).collect())
    }

    /// R, which is symmetric.
    pub(super) fn root(&self) -> &LinearMap {
        &self.root
    }
}

/// The symmetric root of the correlations of `channels` channels, all alike.
fn correlated_root(channels: usize) -> Matrix {
    let n = channels as f64;
    let (apart, together) = ((1.0 - CORRELATION).sqrt(), (1.0 + (n - 1.0) * CORRELATION).sqrt());
    Matrix::from_fn(channels, channels, |i, j| (together - apart) / n + if i == j { apart } else { 0.0 })
}

/// The brightness of the flat image that explains most of what was seen.
fn level(seen: &[f64], flat: &[f64]) -> f64 {
    dot(seen, flat) / dot(flat, flat).max(f64::MIN_POSITIVE)
}

fn check(variance: f64) -> Result<f64> {
    if variance > 0.0 && variance.is_finite() {
        return Ok(variance);
    }
    let remedy = "give a number above 0, such as 0.0625";
    Err(RestoreError::Number { what: "the variance of the images", value: variance, remedy })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corruption::{Blur, Boundary, Corruption};

    #[test]
    fn a_spread_is_fitted_to_what_was_seen_of_images() {
        let shape = Shape::new(16, 16, 1);
        let spread = ImageCovariance::natural(shape, 0.05).unwrap();
        let blur = Blur::new(shape, Boundary::Reflect, 4.0).unwrap().at(1.5).unwrap();
        let mut found = Vec::new();
        for seed in 0..40 {
            let white = RandomStream::new(seed, "image").normals(shape.len());
            let x: Vec<f64> = spread.root().apply(shape, &white).unwrap().iter().map(|x| 0.5 + x).collect();
            let seen = Observation::new(shape, blur.clone(), 0.01, blur.apply(shape, &x).unwrap()).unwrap();
            let [powers, _] = ImageCovariance::fitting(&seen).unwrap().powers(shape);
            found.push(powers.iter().sum::<f64>() / shape.len() as f64);
        }
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        assert!((mean / 0.05 - 1.0).abs() < 0.2, "{mean}");
    }

    #[test]
    fn both_have_the_variance_asked_for() {
        let shape = Shape::new(6, 9, 2);
        for spread in [ImageCovariance::white(0.04).unwrap(), ImageCovariance::natural(shape, 0.04).unwrap()] {
            let root = spread.root().to_dense(shape).unwrap();
            let values = root.times_transposed(&root).diagonal_values();
            assert!((values.iter().sum::<f64>() / shape.len() as f64 - 0.04).abs() < 1e-12);
        }
        assert!(ImageCovariance::white(0.0).is_err() && ImageCovariance::natural(shape, f64::NAN).is_err());
    }
}
