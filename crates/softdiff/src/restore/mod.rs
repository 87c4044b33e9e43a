//! Restoration: images from a degraded observation, with any model and any linear degradation.
//!
//! An [`Observation`] is `y = A x_0 + s e` with a known linear map A and noise of deviation s. What is wanted are images
//! from p(x_0 | y). Their diffusion along the model's path is again `x_t = C_t x_0 + sigma_t eta`, so every sampler of this
//! library draws them, given `E[x_0 | x_t, y]` in place of `E[x_0 | x_t]`: that is the [`Conditioned`] denoiser. And where
//! A is the path's own C_t, the way back begins at that t ([`Entry`]), not at 1.
//!
//! A diffusion model as a prior for any linear inverse problem: Kawar et al. 2022 (DDRM), Song et al. 2023 (PiGDM), Wang et
//! al. 2023 (DDNM), here on paths whose own corruption is not the identity.

mod conditioned;
mod entry;
mod estimate;
mod observation;
mod run;
mod solve;
mod spread;

pub use conditioned::Conditioned;
pub use entry::{Entry, Match};
pub use estimate::{blur_deviation, noise_deviation};
pub use observation::{Observation, POOR_FIT, QUANTISATION};
pub use run::{Restoration, Restored};
pub use spread::Spread;

use crate::corruption::{CorruptionError, Shape};
use crate::path::PathError;
use crate::sampler::SamplerError;

/// Why an image could not be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// An observation of another size than the model's images.
    #[error("the observation has {found} values, images of {shape} have {}; give one of that size", shape.len())]
    Size {
        /// Values found.
        found: usize,
        /// The model's images.
        shape: Shape,
    },
    /// A number that makes no sense.
    #[error("{what} is {value}; {remedy}")]
    Number {
        /// What it is.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What to give.
        remedy: &'static str,
    },
    /// A picture that is no smaller version of the model's images.
    #[error("a picture of {found} is no whole fraction of {shape}; shrink or cut it so that its sides divide those")]
    Fraction {
        /// Its size.
        found: Shape,
        /// The model's images.
        shape: Shape,
    },
    /// Nothing to estimate from.
    #[error("{what} cannot be told from this picture; {remedy}")]
    NoEstimate {
        /// What was to be estimated.
        what: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// A bad corruption.
    #[error(transparent)]
    Corruption(#[from] CorruptionError),
    /// A bad path or time.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A sampler that failed.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
}

/// A result of this module.
pub type Result<T> = std::result::Result<T, RestoreError>;
