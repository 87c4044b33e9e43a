//! Sampling without a network: of Gaussian images with the data's spectrum the best denoiser is known, so that all that is
//! left of a sample's error is the sampler's and the schedule's.
//!
//! In the cosine basis such images, [`crate::corruption::HeatDissipation`] and the posterior mean are diagonal. A step is
//! linear, hence what it makes is Gaussian too: a frequency of variance v gets `a^2 v + b^2`, with a and b found by taking
//! the step from 1 without noise and from 0 with noise of 1. Two Gaussians with one basis are
//! `W2^2 = sum (deviation - deviation')^2` apart.

use crate::corruption::{Corruption, CorruptionError, HeatDissipation, LinearMap, Shape};
use crate::path::{LevelSchedule, Path};
use crate::recipe::{BuildError, Recipe};
use crate::sampler::{Ending, Past, Sampler, SamplerError, Sampling, StepContext};
use crate::schedule::{Schedule, Timing};
use crate::spectrum::Spectrum;
use softdiff_engine::Hint;
use softdiff_engine::rng::RandomStream;
use std::borrow::Cow;

/// What an exact measurement cannot be made of.
#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    /// A path that is not diagonal in the cosine basis.
    #[error("the corruption is not diagonal in the cosine basis")]
    NotSpectral,
    /// A sampler that draws more than once in a step.
    #[error("{0} draws noise several times in a step, which is not worked out here")]
    Draws(&'static str),
    /// Images of another size.
    #[error("{0}")]
    Images(#[from] CorruptionError),
    /// A bad path or sampler.
    #[error("{0}")]
    Sampler(#[from] SamplerError),
}

impl Hint for OracleError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            OracleError::NotSpectral => "give path.corruption.kind \"heat\", or a reflected blur".into(),
            OracleError::Draws(..) => "give momentum".into(),
            _ => return None,
        })
    }
}

/// The path of a recipe's blur through the levels of its schedule, with reflected borders instead of black ones: diagonal in
/// the cosine basis.
pub fn reflected(recipe: &Recipe, schedule: &Schedule) -> Result<Path, BuildError> {
    let Timing { noise, start } = recipe.path.timing().unwrap_or(Timing::PAPER);
    let curve = schedule.curve()?;
    let heat: Box<dyn Corruption> = Box::new(HeatDissipation::new(schedule.shape, curve.range().1)?);
    Ok(Path::new(vec![(heat, LevelSchedule::Curve { curve, start })], noise)?)
}

/// Gaussian images with the variance of every frequency that a data set has.
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianImages {
    shape: Shape,
    /// From images to coefficients.
    transform: LinearMap,
    /// The image with 1 of every coefficient.
    ones: Vec<f64>,
    variances: Vec<f64>,
}

impl GaussianImages {
    /// Those with this spectrum.
    pub fn new(spectrum: &Spectrum) -> Result<GaussianImages, OracleError> {
        let (shape, transform) = (spectrum.shape(), spectrum.transform());
        let ones = transform.adjoint(shape, &vec![1.0; shape.len()])?;
        Ok(GaussianImages { shape, transform, ones, variances: spectrum.variance().to_vec() })
    }

    /// W2 between these Gaussian images and what `sampler` makes of them at t = 1 with the exact denoiser; for samplers that
    /// do not look back.
    pub fn distance(&self, path: &Path, sampler: &dyn Sampler, sampling: &Sampling) -> Result<f64, OracleError> {
        if sampler.draws() > 1 {
            return Err(OracleError::Draws(sampler.name()));
        }
        sampling.check()?;
        for &t in &[sampling.times[0], 0.5] {
            self.check_diagonal(&path.at(t).map_err(SamplerError::from)?.map)?;
        }
        let (size, ones) = (self.shape.len(), &self.ones);
        let nothing = vec![0.0; size];
        // One image of ones without noise, and nothing with noise of ones.
        let (x, eta) = ([&ones[..], &nothing].concat(), [&nothing[..], ones].concat());
        let mut variances = self.corrupted(path, sampling.times[0])?;
        let mut from = path.at(sampling.times[0]).map_err(SamplerError::from)?;
        for step in 0..sampling.times.len() - 1 {
            let to = sampling.target(path, step)?;
            let context = StepContext { path, from: &from, to: &to, before: None, eta: &eta };
            let mut denoiser = |x: &[f64], t: f64| self.x0_hat(path, x, t);
            let last = step + 2 == sampling.times.len();
            let moved = if last && sampling.ending == Ending::Denoised {
                sampler.finish(&context, &x, &mut denoiser)?
            } else {
                sampler.step(&context, &x, &mut denoiser, &mut Past::default())?
            };
            let factors = self.transform.apply_batch(self.shape, &moved)?;
            let (kept, fresh) = factors.split_at(size);
            for ((variance, a), b) in variances.iter_mut().zip(kept).zip(fresh) {
                *variance = a * a * *variance + b * b;
            }
            from = to;
        }
        let squares = variances.iter().zip(&self.variances).map(|(made, own)| (made.sqrt() - own.sqrt()).powi(2));
        Ok(squares.sum::<f64>().sqrt())
    }

    /// The variances of x_t.
    fn corrupted(&self, path: &Path, t: f64) -> Result<Vec<f64>, OracleError> {
        let moment = path.at(t).map_err(SamplerError::from)?;
        let gains = self.gains(&moment.map)?;
        Ok(self.variances.iter().zip(gains).map(|(v, c)| c * c * v + moment.sigma * moment.sigma).collect())
    }

    /// `E[x_0 | x_t]` of images without their mean.
    fn x0_hat(&self, path: &Path, x: &[f64], t: f64) -> Result<Vec<f64>, SamplerError> {
        let moment = path.at(t)?;
        let gains = self.gains(&moment.map)?;
        let mut spectra = self.transform.apply_batch(self.shape, x)?;
        for image in spectra.chunks_exact_mut(self.shape.len()) {
            for ((value, v), c) in image.iter_mut().zip(&self.variances).zip(&gains) {
                *value *= c * v / (c * c * v + moment.sigma * moment.sigma);
            }
        }
        let images = spectra.chunks_exact(self.shape.len()).map(|image| self.transform.adjoint(self.shape, image));
        Ok(images.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// The gain of every frequency of every channel: what becomes of the image that has 1 of each.
    fn gains(&self, map: &LinearMap) -> Result<Vec<f64>, CorruptionError> {
        self.transform.apply(self.shape, &map.apply(self.shape, &self.ones)?)
    }

    /// Refuses maps that mix frequencies.
    fn check_diagonal(&self, map: &LinearMap) -> Result<(), OracleError> {
        let image = RandomStream::new(0, "any image").normals(self.shape.len());
        let before = self.transform.apply(self.shape, &image)?;
        let after = self.transform.apply(self.shape, &map.apply(self.shape, &image)?)?;
        let gains = self.gains(map)?;
        let wrong = before.iter().zip(&gains).zip(&after).any(|((x, gain), y)| (gain * x - y).abs() > 1e-9);
        if wrong { Err(OracleError::NotSpectral) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::Interpolation;
    use crate::sampler::{FlowMomentum, Momentum, Naive, sample};

    const SHAPE: Shape = Shape { height: 6, width: 6, channels: 2 };

    fn path() -> Path {
        let heat = Box::new(HeatDissipation::new(SHAPE, 3.0).unwrap());
        Path::two_stage(heat, vec![0.0, 0.3, 0.7, 1.5, 3.0], Interpolation::Linear).unwrap()
    }

    fn images(count: usize) -> Vec<f64> {
        let blurred = path().at(0.5).unwrap().map;
        blurred.apply_batch(SHAPE, &RandomStream::new(1, "images").normals(count * SHAPE.len())).unwrap()
    }

    fn gaussian(images: &[f64]) -> GaussianImages {
        GaussianImages::new(&Spectrum::of_images(SHAPE, images, false).unwrap()).unwrap()
    }

    #[test]
    fn the_distance_is_that_of_images_that_the_sampler_really_makes() {
        let (path, images) = (path(), images(4000));
        let gaussian = gaussian(&images);
        let sampling = Sampling::uniform(12).unwrap();
        for sampler in [&Momentum as &dyn Sampler, &FlowMomentum, &Naive] {
            let exact = gaussian.distance(&path, sampler, &sampling).unwrap();
            let count = 4000;
            let noise = RandomStream::new(2, "start").normals(count * SHAPE.len());
            let deviations: Vec<f64> =
                gaussian.corrupted(&path, 1.0).unwrap().iter().map(|variance| variance.sqrt()).collect();
            let drawn: Vec<f64> = noise.iter().enumerate().map(|(i, z)| z * deviations[i % SHAPE.len()]).collect();
            let start: Vec<f64> =
                drawn.chunks(SHAPE.len()).flat_map(|x| gaussian.transform.adjoint(SHAPE, x).unwrap()).collect();
            let mut denoiser = |x: &[f64], t: f64| gaussian.x0_hat(&path, x, t);
            let seeds: Vec<u64> = (0..count as u64).collect();
            let made = sample(&path, sampler, &mut denoiser, start, &seeds, &sampling).unwrap();
            let made = gaussian.transform.apply_batch(SHAPE, &made).unwrap();
            let deviation = |i: usize| {
                let values = made.iter().skip(i).step_by(SHAPE.len());
                let mean = values.clone().sum::<f64>() / count as f64;
                (values.map(|v| (v - mean).powi(2)).sum::<f64>() / count as f64).sqrt()
            };
            let squares = gaussian.variances.iter().enumerate().map(|(i, v)| (deviation(i) - v.sqrt()).powi(2));
            let found = squares.sum::<f64>().sqrt();
            assert!((found / exact - 1.0).abs() < 0.05, "{}: {found} made, {exact} expected", sampler.name());
        }
    }

    #[test]
    fn the_distance_falls_with_the_steps_as_the_order_of_momentum_says() {
        let (path, gaussian) = (path(), gaussian(&images(500)));
        let at = |steps| gaussian.distance(&path, &Momentum, &Sampling::uniform(steps).unwrap()).unwrap();
        let (few, many) = (at(100), at(200));
        assert!((few / many - 2.0).abs() < 0.2, "{few} and {many}");
    }

    #[test]
    fn what_is_not_diagonal_is_refused() {
        let blur = crate::corruption::Blur::new(SHAPE, crate::corruption::Boundary::Zero, 3.0).unwrap();
        let path = Path::two_stage(Box::new(blur), vec![0.01, 3.0], Interpolation::Linear).unwrap();
        let error = gaussian(&images(10)).distance(&path, &Momentum, &Sampling::uniform(5).unwrap()).unwrap_err();
        assert!(error.hint().is_some_and(|hint| hint.contains("\"heat\"")), "{error}");
    }
}
