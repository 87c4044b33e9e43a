//! Soft Diffusion as a library: score matching for general linear corruptions.
#![forbid(unsafe_code)]

pub mod checkpoint;
mod crc32;
pub mod import;
pub mod network;
pub mod run;
pub mod train;

pub use softdiff_engine as engine;
