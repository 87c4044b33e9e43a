//! The CPU backend: the reference for every operation, and fast in its own right.

pub(crate) mod conv;
mod executor;
pub(crate) mod gemm;
pub mod product;
mod self_test;
pub(crate) mod simd;
pub(crate) mod tile;
pub mod vector;
mod winograd;

pub use executor::{CpuExecutor, NodeTime};
pub use self_test::self_test;
pub use simd::{Isa, isa};
