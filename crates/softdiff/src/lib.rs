//! Soft Diffusion as a library: score matching for general linear corruptions.
#![forbid(unsafe_code)]

mod crc32;
pub mod import;
pub mod network;
pub mod train;

pub use softdiff_engine as engine;
