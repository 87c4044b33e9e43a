//! The paper: score matching for general linear corruptions.
//!
//! A diffusion is any linear path `x_t = C_t x_0 + sigma_t eta` (Soft Diffusion, Eq. 4), with t = 0 clean and t = 1
//! corrupted. Each noun of the paper is one module, to be read in this order:
//!
//! | module | the paper |
//! |---|---|
//! | [`corruption`] | the operators `C_t` |
//! | [`noise`], [`curve`], [`path`] | `sigma_t`, and both together as functions of time |
//! | [`transport`], [`schedule`] | distances between corrupted distributions and the levels chosen by them (section 4) |
//! | [`objective`] | the soft score matching loss and what the network predicts |
//! | [`network`] | NCSN++ |
//! | [`prior`] | the distribution at t = 1, where sampling starts |
//! | [`sampler`] | Algorithms 1 and 2 and the samplers to compare them with |
//!
//! [`linalg`] and [`spectrum`] are what these are computed with. Nothing here reads a data set, writes a
//! run or knows a recipe; that is the `softdiff` crate, built on this one.
#![forbid(unsafe_code)]

pub mod corruption;
pub mod curve;
pub mod linalg;
pub mod network;
pub mod noise;
pub mod objective;
pub mod path;
pub mod prior;
pub mod sampler;
pub mod schedule;
pub mod spectrum;
pub mod transport;
