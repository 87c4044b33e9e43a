//! Objectives as plain functions of one image.

use super::{Kind, Objective, ObjectiveError};
use crate::corruption::{LinearMap, Shape};

/// One image, what became of it, and what the network said.
#[derive(Debug, Clone, Copy)]
pub struct Example<'a> {
    /// Size of the image.
    pub shape: Shape,
    /// The clean image.
    pub x0: &'a [f64],
    /// `x_t = C_t x_0 + sigma_t eta`.
    pub xt: &'a [f64],
    /// The network's output F(x_t, t).
    pub output: &'a [f64],
    /// C_t.
    pub map: &'a LinearMap,
    /// sigma_t.
    pub sigma: f64,
    /// C at the earlier time of [`super::Loss::earlier`].
    pub earlier: Option<&'a LinearMap>,
}

impl Objective {
    /// `1/2 w(t) |e|^2` of one image; see [`Kind`] for e.
    pub fn loss(&self, example: &Example) -> Result<f64, ObjectiveError> {
        let Example { shape, x0, xt, output, map, sigma, earlier } = *example;
        self.check()?;
        for (what, found) in [("x_t", xt.len()), ("the network's output", output.len())] {
            if found != x0.len() {
                return Err(ObjectiveError::Size { what, found, expected: x0.len() });
            }
        }
        let earlier = || earlier.ok_or(ObjectiveError::NoEarlierMap);
        let x0_hat = || self.head.x0_hat(output, xt, sigma);
        let difference = || -> Result<Vec<f64>, ObjectiveError> {
            Ok(x0_hat()?.iter().zip(x0).map(|(predicted, x0)| predicted - x0).collect())
        };
        let error = match self.kind {
            Kind::Soft => map.apply(shape, &difference()?)?,
            Kind::LookAhead { .. } => earlier()?.apply(shape, &difference()?)?,
            Kind::Clean => difference()?,
            Kind::OneStep { .. } => {
                let target = earlier()?.apply(shape, x0)?;
                x0_hat()?.iter().zip(&target).map(|(predicted, target)| predicted - target).collect()
            }
            Kind::Noise if sigma > 0.0 => {
                let y = map.apply(shape, x0)?;
                (0..x0.len()).map(|i| output[i] - (xt[i] - y[i]) / sigma).collect()
            }
            Kind::Noise => return Err(ObjectiveError::NoNoise(sigma)),
        };
        let square = |error: &[f64]| error.iter().map(|e| e * e).sum::<f64>();
        let mixed = match self.mixture {
            0.0 => square(&error),
            mixture => (1.0 - mixture) * square(&error) + mixture * square(&difference()?),
        };
        Ok(0.5 * self.weight.at(sigma)? * mixed)
    }
}

/// Denoising score matching of one image, `1/2 |s - (C_t x_0 - x_t) / sigma^2|^2` (Eq. 7; Vincent 2011 for C = I).
pub fn denoising_score_matching(y: &[f64], xt: &[f64], score: &[f64], sigma: f64) -> Result<f64, ObjectiveError> {
    for (what, found) in [("x_t", xt.len()), ("the score", score.len())] {
        if found != y.len() {
            return Err(ObjectiveError::Size { what, found, expected: y.len() });
        }
    }
    if sigma.is_nan() || sigma <= 0.0 {
        return Err(ObjectiveError::NoNoise(sigma));
    }
    let square = |i: usize| (score[i] - (y[i] - xt[i]) / (sigma * sigma)).powi(2);
    Ok(0.5 * (0..y.len()).map(square).sum::<f64>())
}
