//! Soft Diffusion as a library: score matching for general linear corruptions.
//!
//! A diffusion here is any linear path `x_t = C_t x_0 + sigma_t eta` (Soft Diffusion, Eq. 4), with t = 0 clean and
//! t = 1 corrupted. Each noun of the paper is one module.
#![forbid(unsafe_code)]

pub mod corruption;
pub mod curve;
pub mod hash;
pub mod image;
pub mod linalg;
pub mod noise;
pub mod path;
pub mod prior;
pub mod random;
pub mod schedule;
pub mod transport;
