//! Sampling without a network: of Gaussian images with the data's spectrum the best denoiser is known, so that all that is
//! left of a sample's error is the sampler's and the schedule's.
//!
//! In the cosine basis such images, [`crate::corruption::HeatDissipation`] and the posterior mean are diagonal. A step is
//! linear, hence what it makes is Gaussian too: a frequency of variance v gets `a^2 v + b^2`, with a and b found by taking
//! the step from 1 without noise and from 0 with noise of 1. Two Gaussians with one basis are
//! `W2^2 = sum (deviation - deviation')^2` apart.

use crate::corruption::{Corruption, CorruptionError, HeatDissipation, LinearMap, Shape, cosine_basis};
use crate::path::{LevelSchedule, Path};
use crate::random::Stream;
use crate::recipe::{BuildError, Recipe};
use crate::sampler::{Ending, Past, Point, Sampler, SamplerError, Sampling, Stage};
use crate::schedule::{Schedule, Timing};

/// What an exact measurement cannot be made of.
#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    /// A path that is not diagonal in the cosine basis.
    #[error(
        "the corruption is not diagonal in the cosine basis; give path.corruption.kind \"heat\", or a reflected blur"
    )]
    NotSpectral,
    /// A sampler that draws more than once in a step.
    #[error("{0} draws noise several times in a step, which is not worked out here; give momentum")]
    Draws(&'static str),
    /// Images of another size.
    #[error(transparent)]
    Images(#[from] CorruptionError),
    /// A bad path or sampler.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
}

/// The path of a recipe's blur through the levels of its schedule, with reflected borders instead of black ones: diagonal in
/// the cosine basis.
pub fn reflected(recipe: &Recipe, schedule: &Schedule) -> Result<Path, BuildError> {
    let Timing { noise, start } = recipe.path.timing().unwrap_or(Timing::PAPER);
    let curve = schedule.curve()?;
    let heat: Box<dyn Corruption> = Box::new(HeatDissipation::new(schedule.shape, curve.range().1)?);
    Ok(Path::new(vec![(heat, LevelSchedule::Curve { curve, start })], noise)?)
}

/// The variance of every frequency of every channel, over the images of a data set.
#[derive(Debug, Clone, PartialEq)]
pub struct Spectrum {
    shape: Shape,
    cosines: LinearMap,
    /// The image with 1 of every frequency.
    ones: Vec<f64>,
    variances: Vec<f64>,
}

impl Spectrum {
    /// Of images one after the other.
    pub fn of(shape: Shape, images: &[f64]) -> Result<Spectrum, OracleError> {
        let count = shape.count(images)?.max(1) as f64;
        let cosines = LinearMap::Separable { rows: cosine_basis(shape.height), cols: cosine_basis(shape.width) };
        let spectra = cosines.apply_batch(shape, images)?;
        let (mut sums, mut squares) = (vec![0.0; shape.len()], vec![0.0; shape.len()]);
        for image in spectra.chunks_exact(shape.len()) {
            for ((sum, square), value) in sums.iter_mut().zip(&mut squares).zip(image) {
                *sum += value;
                *square += value * value;
            }
        }
        let variance = |(sum, square): (&f64, &f64)| (square / count - (sum / count).powi(2)).max(0.0);
        let variances = sums.iter().zip(&squares).map(variance).collect();
        let ones = cosines.adjoint(shape, &vec![1.0; shape.len()])?;
        Ok(Spectrum { shape, cosines, ones, variances })
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
        let mut from = Point::on(path, sampling.times[0])?;
        for step in 0..sampling.times.len() - 1 {
            let to = sampling.target(path, step)?;
            let stage = Stage { path, from: &from, to: &to, eta: &eta };
            let mut denoiser = |x: &[f64], t: f64| self.x0_hat(path, x, t);
            let last = step + 2 == sampling.times.len();
            let moved = if last && sampling.ending == Ending::Denoised {
                sampler.finish(&stage, &x, &mut denoiser)?
            } else {
                sampler.step(&stage, &x, &mut denoiser, &mut Past::default())?
            };
            let factors = self.cosines.apply_batch(self.shape, &moved)?;
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
        let mut spectra = self.cosines.apply_batch(self.shape, x)?;
        for image in spectra.chunks_exact_mut(self.shape.len()) {
            for ((value, v), c) in image.iter_mut().zip(&self.variances).zip(&gains) {
                *value *= c * v / (c * c * v + moment.sigma * moment.sigma);
            }
        }
        let images = spectra.chunks_exact(self.shape.len()).map(|image| self.cosines.adjoint(self.shape, image));
        Ok(images.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// The gain of every frequency of every channel: what becomes of the image that has 1 of each.
    fn gains(&self, map: &LinearMap) -> Result<Vec<f64>, CorruptionError> {
        self.cosines.apply(self.shape, &map.apply(self.shape, &self.ones)?)
    }

    /// Refuses maps that mix frequencies.
    fn check_diagonal(&self, map: &LinearMap) -> Result<(), OracleError> {
        let image = Stream::new(0, "any image").normals(self.shape.len());
        let before = self.cosines.apply(self.shape, &image)?;
        let after = self.cosines.apply(self.shape, &map.apply(self.shape, &image)?)?;
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
        blurred.apply_batch(SHAPE, &Stream::new(1, "images").normals(count * SHAPE.len())).unwrap()
    }

    #[test]
    fn the_distance_is_that_of_images_that_the_sampler_really_makes() {
        let (path, images) = (path(), images(4000));
        let spectrum = Spectrum::of(SHAPE, &images).unwrap();
        let sampling = Sampling::uniform(12).unwrap();
        for sampler in [&Momentum as &dyn Sampler, &FlowMomentum, &Naive] {
            let exact = spectrum.distance(&path, sampler, &sampling).unwrap();
            let count = 4000;
            let noise = Stream::new(2, "start").normals(count * SHAPE.len());
            let deviations: Vec<f64> =
                spectrum.corrupted(&path, 1.0).unwrap().iter().map(|variance| variance.sqrt()).collect();
            let drawn: Vec<f64> = noise.iter().enumerate().map(|(i, z)| z * deviations[i % SHAPE.len()]).collect();
            let start: Vec<f64> =
                drawn.chunks(SHAPE.len()).flat_map(|x| spectrum.cosines.adjoint(SHAPE, x).unwrap()).collect();
            let mut denoiser = |x: &[f64], t: f64| spectrum.x0_hat(&path, x, t);
            let seeds: Vec<u64> = (0..count as u64).collect();
            let made = sample(&path, sampler, &mut denoiser, start, &seeds, &sampling).unwrap();
            let made = Spectrum::of(SHAPE, &made).unwrap();
            let squares = made.variances.iter().zip(&spectrum.variances).map(|(a, b)| (a.sqrt() - b.sqrt()).powi(2));
            let found = squares.sum::<f64>().sqrt();
            assert!((found / exact - 1.0).abs() < 0.05, "{}: {found} made, {exact} expected", sampler.name());
        }
    }

    #[test]
    fn the_distance_falls_with_the_steps_as_the_order_of_momentum_says() {
        let (path, spectrum) = (path(), Spectrum::of(SHAPE, &images(500)).unwrap());
        let at = |steps| spectrum.distance(&path, &Momentum, &Sampling::uniform(steps).unwrap()).unwrap();
        let (few, many) = (at(100), at(200));
        assert!((few / many - 2.0).abs() < 0.2, "{few} and {many}");
    }

    #[test]
    fn what_is_not_diagonal_is_refused() {
        let blur = crate::corruption::Blur::new(SHAPE, crate::corruption::Boundary::Zero, 3.0).unwrap();
        let path = Path::two_stage(Box::new(blur), vec![0.01, 3.0], Interpolation::Linear).unwrap();
        let spectrum = Spectrum::of(SHAPE, &images(10)).unwrap();
        let error = spectrum.distance(&path, &Momentum, &Sampling::uniform(5).unwrap()).unwrap_err();
        assert!(error.to_string().contains("\"heat\""), "{error}");
    }
}
