//! Restoration: images from a degraded observation, with any model and any linear degradation.
//!
//! An [`Observation`] is `y = A x_0 + s e` with a known linear map A and noise of deviation s. What is wanted are images
//! from p(x_0 | y). Their diffusion along the model's path is again `x_t = C_t x_0 + sigma_t eta`, so every sampler of this
//! library draws them, given `E[x_0 | x_t, y]` in place of `E[x_0 | x_t]`: that is the [`Conditioned`] denoiser. And where
//! A is the path's own C_t, the way back begins at that t ([`PathEntry`]), not at 1.
//!
//! A [`Restoration`] does all of it: it finds out what happened to an image ([`Task`]), where to enter the path, and draws.
//!
//! A diffusion model as a prior for any linear inverse problem: Kawar et al. 2022 (DDRM), Song et al. 2023 (PiGDM), Wang et
//! al. 2023 (DDNM), here on paths whose own corruption is not the identity.

mod conditioned;
mod entry;
mod error;
mod estimate;
mod guess;
mod observation;
mod photo_model;
mod plug_and_play;
mod posterior;
mod restoration;
mod scores;
mod solve;
mod spread;
mod task;
mod tiles;
mod white_noise;

pub use conditioned::Conditioned;
pub use entry::{PathEntry, PathMatch};
pub use error::RestoreError;
pub use estimate::{Estimate, blur_deviation, blur_estimate, jpeg_noise, noise_deviation};
pub use observation::{Observation, POOR_FIT, QUANTISATION};
pub use photo_model::{PHOTO_MODEL, PhotoQuality, photo_model};
pub use plug_and_play::PlugAndPlay;
pub use posterior::{PosteriorSampler, PosteriorSamples};
pub use restoration::{Restoration, RestoreEvent, RestoreWatch, Restored};
pub use scores::{PairScore, RestorationScores};
pub use spread::ImageCovariance;
pub use task::{BlurKind, Observed, Task, fitted, known_pixels};
pub use tiles::{TileSize, TiledDenoiser};

/// A result of this module.
pub type Result<T> = std::result::Result<T, RestoreError>;
