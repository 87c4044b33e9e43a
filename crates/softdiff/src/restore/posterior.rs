//! Images that explain an observation: several of them, their mean, and how far they differ.

use super::{Conditioned, ImageCovariance, Observation, PathEntry, Result};
use crate::path::Path;
use crate::prior::Prior;
use crate::sampler::{Denoiser, Ending, Sampler, SamplerError, Sampling, sample};
use rayon::prelude::*;
use softdiff_engine::rng::RandomStream;

/// The noise of y, as a share of the path's, above which the way does not begin with y itself.
const LOUD: f64 = 0.5;

/// How to draw images from p(x_0 | y).
pub struct PosteriorSampler<'a> {
    /// The model's path.
    pub path: &'a Path,
    /// Where it ends, for beginnings without a spread.
    pub prior: &'a Prior,
    /// How to step.
    pub sampler: &'a dyn Sampler,
    /// Steps of the whole path; an entry on the way takes its share of them.
    pub steps: usize,
    /// Where to begin.
    pub entry: PathEntry,
    /// The images' spread about their mean, for the correction by what was seen; none goes back along the path without
    /// looking at the observation again.
    pub spread: Option<&'a ImageCovariance>,
    /// What to begin with at t = 1, with the path's noise; else a rough Gaussian guess.
    pub guess: Option<&'a [f64]>,
    /// Whether the correction is scaled to what it leaves to explain ([`Conditioned::calibrated`]).
    pub calibrated: bool,
    /// Images at a time.
    pub batch: usize,
}

/// Images from p(x_0 | y).
#[derive(Debug, Clone, PartialEq)]
pub struct PosteriorSamples {
    /// One image per seed.
    pub samples: Vec<f64>,
    /// Their mean: the best guess in squared error.
    pub mean: Vec<f64>,
    /// The standard deviation of each value over them; zeros where there is one only.
    pub std: Vec<f64>,
}

impl PosteriorSampler<'_> {
    /// The times from the entry on.
    pub fn sampling(&self) -> Result<Sampling> {
        let start = self.entry.time();
        let steps = steps_from(start, self.steps)?;
        let times = (0..=steps).map(|i| start * (steps - i) as f64 / steps as f64).collect();
        Ok(Sampling { times, ending: Ending::Denoised })
    }

    /// One image per seed; each depends on the observation and its own seed alone.
    pub fn run(
        &self,
        denoiser: &mut dyn Denoiser,
        observation: &Observation,
        seeds: &[u64],
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<PosteriorSamples> {
        let (size, sampling) = (self.path.shape().len(), self.sampling()?);
        let mut samples = Vec::with_capacity(seeds.len() * size);
        for part in seeds.chunks(self.batch.max(1)) {
            let images = match self.spread {
                Some(spread) => {
                    let conditioned = Conditioned::new(denoiser, self.path, observation, spread);
                    let mut conditioned = conditioned.calibrated(self.calibrated);
                    self.part(&mut conditioned, observation, part, &sampling)?
                }
                None => self.part(denoiser, observation, part, &sampling)?,
            };
            samples.extend(images);
            progress(samples.len() / size, seeds.len());
        }
        Ok(PosteriorSamples::of(samples, size))
    }

    fn part(
        &self,
        denoiser: &mut dyn Denoiser,
        observation: &Observation,
        seeds: &[u64],
        sampling: &Sampling,
    ) -> Result<Vec<f64>> {
        let start = match (self.entry, self.spread) {
            (PathEntry::At { t, scale }, Some(spread)) if self.is_loud(observation, t, scale) => {
                self.guessed(observation, spread, t, seeds)?
            }
            (PathEntry::At { t, scale }, _) => self.entered(observation, t, scale, seeds)?,
            (PathEntry::Beginning, Some(spread)) => self.guessed(observation, spread, 1.0, seeds)?,
            (PathEntry::Beginning, None) => seeds.iter().flat_map(|&seed| self.prior.sample(1, seed)).collect(),
        };
        if sampling.times[0] == 0.0 {
            return Ok(denoiser.x0_hat(&start, 0.0)?);
        }
        Ok(sample(self.path, self.sampler, denoiser, start, seeds, sampling)?)
    }

    /// x_t from y: the observation's own noise counts as part of the path's where nothing looks at it again; else the path
    /// brings its own, independent of it.
    fn entered(&self, observation: &Observation, t: f64, scale: f64, seeds: &[u64]) -> Result<Vec<f64>> {
        let (sigma, own) = (self.path.sigma(t), scale * observation.sigma());
        let fresh = match self.spread {
            Some(_) => (sigma * sigma + own * own).sqrt(),
            None => (sigma * sigma - own * own).max(0.0).sqrt(),
        };
        let one = |&seed: &u64| {
            let mut stream = RandomStream::new(seed, "entry into the path");
            observation.values().iter().map(move |y| scale * y + fresh * stream.normal()).collect::<Vec<f64>>()
        };
        let mut images: Vec<f64> = seeds.iter().flat_map(one).collect();
        if let Some(offset) = self.path.offset(t)? {
            images.iter_mut().zip(offset.iter().cycle()).for_each(|(x, o)| *x += o);
        }
        Ok(images)
    }

    /// Whether the noise of y would be taken for detail, beside that of the path.
    fn is_loud(&self, observation: &Observation, t: f64, scale: f64) -> bool {
        scale * observation.sigma() > LOUD * self.path.sigma(t)
    }

    /// x_t that agrees with the observation: the corruption of a guess. What C_t loses need not be right in it.
    fn guessed(&self, observation: &Observation, spread: &ImageCovariance, t: f64, seeds: &[u64]) -> Result<Vec<f64>> {
        let one = |&seed: &u64| {
            let mut stream = RandomStream::new(seed, "beginning of a restoration");
            let drawn;
            let guess = match self.guess {
                Some(guess) => guess,
                None => {
                    drawn = spread.draw(observation, &mut stream)?;
                    &drawn
                }
            };
            Ok(self.path.diffuse(guess, t, &stream.normals(guess.len()))?)
        };
        Ok(seeds.par_iter().map(one).collect::<Result<Vec<Vec<f64>>>>()?.concat())
    }
}

/// Steps from the entry on: their share of those of the whole path.
pub(super) fn steps_from(start: f64, steps: usize) -> Result<usize> {
    match steps {
        0 => Err(SamplerError::NoSteps.into()),
        _ => Ok(((steps as f64 * start).ceil() as usize).max(1)),
    }
}

impl PosteriorSamples {
    fn of(samples: Vec<f64>, size: usize) -> PosteriorSamples {
        // Without samples, everything is zero.
        let count = (samples.len() / size.max(1)) as f64;
        let (mut mean, mut std) = (vec![0.0; size], vec![0.0; size]);
        for image in samples.chunks_exact(size) {
            mean.iter_mut().zip(image).for_each(|(mean, x)| *mean += x / count);
        }
        for image in samples.chunks_exact(size) {
            for ((std, x), mean) in std.iter_mut().zip(image).zip(&mean) {
                *std += (x - mean).powi(2) / (count - 1.0).max(1.0);
            }
        }
        std.iter_mut().for_each(|std| *std = std.sqrt());
        PosteriorSamples { samples, mean, std }
    }
}
