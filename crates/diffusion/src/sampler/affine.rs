//! The updates that samplers are written in: affine expressions in x_t, the predicted clean image and noise.
//!
//! A sampler writes its step as the paper does, `z + (C' x0_hat - C x0_hat)`; what comes out are a few coefficients. They
//! are the same for every image, so the step runs on arrays on a CPU and as one graph on a GPU.

use super::{Denoiser, Past, Result, StepContext, checked_x0_hat};
use crate::path::Moment;
use std::ops::{Add, Mul, Sub};

/// `now x0_hat + previous x0_hat_previous`: a combination of the last two predictions of the clean image.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Predicted {
    /// Coefficient of the prediction at the current x.
    pub now: f64,
    /// Coefficient of the prediction before it, in this step or the last.
    pub previous: f64,
}

/// `x' = x_coefficient x + C from + C' to + noise eta`: one evaluation of the denoiser and what is done with it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AffineUpdate {
    /// Coefficient of x.
    pub x: f64,
    /// The clean image that is corrupted by C, of the point where the step starts.
    pub from: Predicted,
    /// The clean image that is corrupted by C', of the point where the step ends.
    pub to: Predicted,
    /// Coefficient of standard normal noise.
    pub noise: f64,
}

/// x itself.
pub const X: AffineUpdate = AffineUpdate { x: 1.0, from: NOTHING, to: NOTHING, noise: 0.0 };
/// Standard normal noise.
pub const ETA: AffineUpdate = AffineUpdate { x: 0.0, from: NOTHING, to: NOTHING, noise: 1.0 };
/// The clean image predicted from x.
pub const X0_HAT: Predicted = Predicted { now: 1.0, previous: 0.0 };
/// The clean image of the evaluation before.
pub const PREVIOUS_X0_HAT: Predicted = Predicted { now: 0.0, previous: 1.0 };
const NOTHING: Predicted = Predicted { now: 0.0, previous: 0.0 };

/// C x0_hat, with C of the point where the step starts.
pub fn corrupted_from(x0_hat: Predicted) -> AffineUpdate {
    AffineUpdate { from: x0_hat, ..AffineUpdate::default() }
}

/// C' x0_hat, with C' of the point where the step ends.
pub fn corrupted_to(x0_hat: Predicted) -> AffineUpdate {
    AffineUpdate { to: x0_hat, ..AffineUpdate::default() }
}

impl Add for Predicted {
    type Output = Predicted;
    fn add(self, other: Predicted) -> Predicted {
        Predicted { now: self.now + other.now, previous: self.previous + other.previous }
    }
}

impl Mul<Predicted> for f64 {
    type Output = Predicted;
    fn mul(self, other: Predicted) -> Predicted {
        Predicted { now: self * other.now, previous: self * other.previous }
    }
}

impl Sub for Predicted {
    type Output = Predicted;
    fn sub(self, other: Predicted) -> Predicted {
        self + -1.0 * other
    }
}

impl Add for AffineUpdate {
    type Output = AffineUpdate;
    fn add(self, other: AffineUpdate) -> AffineUpdate {
        AffineUpdate {
            x: self.x + other.x,
            from: self.from + other.from,
            to: self.to + other.to,
            noise: self.noise + other.noise,
        }
    }
}

impl Mul<AffineUpdate> for f64 {
    type Output = AffineUpdate;
    fn mul(self, other: AffineUpdate) -> AffineUpdate {
        AffineUpdate { x: self * other.x, from: self * other.from, to: self * other.to, noise: self * other.noise }
    }
}

impl Sub for AffineUpdate {
    type Output = AffineUpdate;
    fn sub(self, other: AffineUpdate) -> AffineUpdate {
        self + -1.0 * other
    }
}

impl AffineUpdate {
    /// x' from x in memory: x0_hat is predicted at the time of `at`.
    pub(super) fn apply(
        &self,
        step: &StepContext,
        at: &Moment,
        x: &[f64],
        denoiser: &mut dyn Denoiser,
        past: &mut Past,
    ) -> Result<Vec<f64>> {
        let x0_hat = checked_x0_hat(denoiser, x, at.t)?;
        let mut next: Vec<f64> = x.iter().map(|x| self.x * x).collect();
        for (map, clean) in [(&step.from.map, self.from), (&step.to.map, self.to)] {
            let Some(clean) = clean.of(&x0_hat, past.x0_hat.as_deref()) else { continue };
            let corrupted = map.apply_batch(step.path.shape(), &clean)?;
            next.iter_mut().zip(corrupted).for_each(|(next, y)| *next += y);
        }
        if self.noise != 0.0 {
            next.iter_mut().zip(step.noise(0, x.len())?).for_each(|(next, eta)| *next += self.noise * eta);
        }
        past.x0_hat = Some(x0_hat);
        Ok(next)
    }
}

impl Predicted {
    /// The combination of two predictions; none where it is 0.
    fn of(&self, now: &[f64], previous: Option<&[f64]>) -> Option<Vec<f64>> {
        match previous {
            Some(previous) if self.previous != 0.0 => {
                let combined = now.iter().zip(previous).map(|(now, then)| self.now * now + self.previous * then);
                Some(combined.collect())
            }
            _ if self.now != 0.0 => Some(now.iter().map(|now| self.now * now).collect()),
            _ => None,
        }
    }
}
