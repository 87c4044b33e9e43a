//! Soft Diffusion as a library: score matching for general linear corruptions.
#![forbid(unsafe_code)]

pub mod archive;
mod bytes;
mod crc32;
pub mod data;
pub mod hash;
pub mod image;
pub mod import;
pub mod network;
mod shown;
pub mod train;

pub use bytes::BytesError;
pub use softdiff_engine as engine;
