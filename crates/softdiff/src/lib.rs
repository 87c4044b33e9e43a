//! Soft Diffusion as a library: score matching for general linear corruptions.
//!
//! A diffusion here is any linear path `x_t = C_t x_0 + sigma_t eta` (Soft Diffusion, Eq. 4), with t = 0 clean and
//! t = 1 corrupted. Each noun of the paper is one module.
#![forbid(unsafe_code)]

pub mod archive;
mod bytes;
pub mod checkpoint;
pub mod corruption;
pub mod curve;
pub mod data;
pub mod experiment;
pub mod hash;
pub mod history;
pub mod image;
pub mod import;
pub mod inception;
pub mod linalg;
pub mod metrics;
pub mod model;
pub mod network;
pub mod noise;
pub mod objective;
pub mod path;
pub mod prior;
pub mod random;
pub mod recipe;
pub mod report;
pub mod restore;
pub mod run;
pub mod sampler;
pub mod schedule;
mod shown;
pub mod spectrum;
mod suggest;
pub mod train;
pub mod transport;
pub mod watch;

pub use bytes::BytesError;
pub use softdiff_engine as engine;
