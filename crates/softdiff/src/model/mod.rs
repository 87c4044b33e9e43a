//! Trained models: a network with weights, the path it was trained on, and where that path starts.

mod denoiser;
mod generate;

pub use denoiser::{Condition, NetworkDenoiser};
pub use generate::{Generation, to_bytes};
