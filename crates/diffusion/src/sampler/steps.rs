//! x_t in memory, one step at a time.

use super::centred::Centred;
use super::run::{Sampling, SamplingState, StepPosition};
use super::{Denoiser, Past, Result, Sampler, SamplerError, StepContext, check_finite};
use crate::path::Path;
use rayon::prelude::*;
use softdiff_engine::rng::Stream;

/// Purpose of the samplers' noise in the engine's random streams: "SAMP".
const SAMPLING: u32 = 0x5341_4D50;

/// Images on their way back along a path, one step at a time; [`sample`](super::sample) takes all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct ReverseSteps {
    /// Samplers are linear: they see images from the path's centre.
    x: Vec<f64>,
    centre: f64,
    seeds: Vec<u64>,
    past: Past,
    position: StepPosition,
}

impl ReverseSteps {
    /// Before the first step, at `x1`, one image per seed.
    pub fn new(path: &Path, sampling: &Sampling, x1: Vec<f64>, seeds: &[u64]) -> Result<Self> {
        let position = StepPosition::start(path, sampling)?;
        let expected = seeds.len() * path.shape().len();
        if x1.len() != expected {
            return Err(SamplerError::Size { what: "the start", found: x1.len(), expected });
        }
        check_finite("the start", &x1, position.time())?;
        let centre = path.centre();
        let x = x1.into_iter().map(|x| x - centre).collect();
        Ok(ReverseSteps { x, centre, seeds: seeds.to_vec(), past: Past::default(), position })
    }

    /// The time of the images.
    pub fn time(&self) -> f64 {
        self.position.time()
    }

    /// The images as they are now.
    pub fn images(&self) -> Vec<f64> {
        self.x.iter().map(|x| x + self.centre).collect()
    }

    /// Takes the next step; false where there is none left. Path, sampler and sampling must be the same in all steps.
    pub fn advance(
        &mut self,
        path: &Path,
        sampler: &dyn Sampler,
        sampling: &Sampling,
        denoiser: &mut dyn Denoiser,
    ) -> Result<bool> {
        let mut denoiser = Centred { inner: denoiser, centre: self.centre };
        let ReverseSteps { x, seeds, past, position, .. } = self;
        let stepped =
            position.advance(path, sampler, sampling, &mut InMemory { x, denoiser: &mut denoiser, seeds, past })?;
        if stepped {
            check_finite("the sample", x, position.time())?;
        }
        Ok(stepped)
    }
}

/// x_t in memory.
struct InMemory<'a> {
    x: &'a mut Vec<f64>,
    denoiser: &'a mut dyn Denoiser,
    seeds: &'a [u64],
    past: &'a mut Past,
}

impl SamplingState for InMemory<'_> {
    fn step(&mut self, sampler: &dyn Sampler, step: &StepContext, index: usize) -> Result<()> {
        let eta = noise(self.seeds, index, sampler.draws(), step.path.shape().len());
        let StepContext { path, from, to, before, .. } = *step;
        let step = StepContext { path, from, to, before, eta: &eta };
        *self.x = sampler.step(&step, self.x, self.denoiser, self.past)?;
        Ok(())
    }

    fn finish(&mut self, sampler: &dyn Sampler, step: &StepContext) -> Result<()> {
        *self.x = sampler.finish(step, self.x, self.denoiser)?;
        Ok(())
    }
}

/// Noise `[draw][image][element]` of one step, each image from its own seed.
pub fn noise(seeds: &[u64], step: usize, draws: usize, size: usize) -> Vec<f64> {
    let mut eta = vec![0.0; draws * seeds.len() * size];
    let place = |(index, values): (usize, &mut [f64])| {
        let (draw, seed) = (index / seeds.len(), seeds[index % seeds.len()]);
        let mut one = vec![0f32; size];
        Stream { seed, purpose: SAMPLING, step: step as u32 }.fill_normal((draw * size) as u64, &mut one);
        values.iter_mut().zip(one).for_each(|(value, drawn)| *value = f64::from(drawn));
    };
    eta.par_chunks_mut(size.max(1)).enumerate().for_each(place);
    eta
}
