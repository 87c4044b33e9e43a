//! The best guess of a photograph: E[x_0 | y] without drawing samples.
//!
//! Half-quadratic splitting with the model as its denoiser (Zhang et al. 2021, "Plug-and-play image restoration with deep
//! denoiser prior"). The noise level sigma falls from step to step, and each step has two parts:
//!
//! 1. what was seen: `x = argmin |y - A x|^2 / s^2 + lambda |x - z|^2 / sigma^2`,
//! 2. what images look like: `z = E[x_0 | x_t = x]` at the time t whose noise is sigma.
//!
//! Where nothing but noise happened (A = I), the second part alone, at sigma = s, is E[x_0 | y] itself.

use super::solve::System;
use super::white_noise::denoised;
use super::{ImageCovariance, Observation, Result};
use crate::corruption::LinearMap;
use crate::path::Path;
use crate::sampler::Denoiser;

/// lambda of Zhang et al.
const LAMBDA: f64 = 0.23;
/// The noise level of the first step, theirs too: much of what is wrong with z is below it.
const FIRST: f64 = 49.0 / 255.0;

/// How the best guess of what was observed is found.
pub struct PlugAndPlay<'a> {
    /// The model's path, on which C_t is a multiple of the identity.
    pub path: &'a Path,
    /// How images differ from their mean, for the first guess.
    pub spread: &'a ImageCovariance,
    /// Evaluations of the denoiser, where more than noise is to be undone.
    pub steps: usize,
}

/// Evaluations of the denoiser for an observation, in so many steps.
pub(super) fn evaluations(observation: &Observation, steps: usize) -> usize {
    if *observation.map() == LinearMap::Identity { 1 } else { steps }
}

impl PlugAndPlay<'_> {
    /// The best guess; `watch` takes each step's.
    pub fn run(
        &self,
        denoiser: &mut dyn Denoiser,
        observation: &Observation,
        watch: &mut dyn FnMut(&[f64]),
    ) -> Result<Vec<f64>> {
        let s = observation.sigma();
        if *observation.map() == LinearMap::Identity {
            return Ok(denoised(self.path, denoiser, observation.values(), s, 1.0)?);
        }
        let mut z = self.spread.expected(observation)?;
        watch(&z);
        for sigma in self.noise_levels(observation) {
            let weight = LAMBDA * (s / sigma).powi(2);
            let path_term = Some((&LinearMap::Identity, weight));
            let system = System { observation, spread: self.spread, path_term };
            let shift = system.solve(&z, observation.values())?;
            z.iter_mut().zip(shift).for_each(|(x, d)| *x += d);
            z = denoised(self.path, denoiser, &z, sigma, 1.0)?;
            watch(&z);
        }
        Ok(z)
    }

    /// From coarse to fine, in equal ratios.
    fn noise_levels(&self, observation: &Observation) -> Vec<f64> {
        // A value that is seen several times leaves as many open.
        let copies = observation.copies().sqrt();
        let last = (observation.sigma() / copies).max(copies / 255.0).max(self.path.sigma(0.0)).min(FIRST);
        let share = |i: usize| if self.steps > 1 { i as f64 / (self.steps - 1) as f64 } else { 1.0 };
        (0..self.steps).map(|i| FIRST * (last / FIRST).powf(share(i))).collect()
    }
}
