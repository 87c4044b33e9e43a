//! The network: NCSN++ (Song et al., 2021) as the paper uses it, "without any changes", and any U-Net of its blocks.

mod blocks;
mod config;
mod correspondence;
mod official;
mod unet;

pub use blocks::{Builder, Resampling};
pub use config::{ConfigError, Embedding, TimeInput, UNetConfig};
pub use correspondence::{Correspondence, Layout, OfficialWeights};
pub use official::UnknownNetwork;
pub use unet::{UNet, unet};
