//! A small static-graph tensor engine.
//!
//! A [`Graph`] records typed operations over static NHWC shapes; [`Graph::gradients`] adds the reverse pass as more
//! operations; a [`Plan`] orders them and assigns memory by liveness; a [`cpu::CpuExecutor`] runs the plan in `f32` or
//! `f64`. Randomness is counter-based ([`rng`]), so that every number is a pure function of seed, purpose, step and
//! index. The engine knows nothing of diffusion.

pub mod allocator;
pub mod atomic_file;
mod autodiff;
pub mod cache;
mod comparison;
pub mod cpu;
pub mod cuda;
pub mod device;
mod error;
mod fold;
mod graph;
pub mod hash;
mod hint;
pub mod memory;
pub mod op;
#[doc(hidden)]
pub mod op_cases;
pub mod optim;
mod params;
pub mod pixels;
mod plan;
mod precision;
pub mod ranks;
pub mod regular_file;
pub mod rng;
mod scalar;
mod shape;
pub mod shared_bytes;
pub mod shuffle;
pub mod suggest;
mod tensors;

pub use comparison::Check;
pub use device::Device;
pub use error::{Error, Result};
pub use graph::{Graph, Init, Leaf, Node, ParamSpec, Storage, Var};
pub use hint::{Hint, HintedMessage};
pub use params::{Params, ReadError};
pub use plan::{Place, Plan};
pub use precision::Precision;
pub use scalar::Scalar;
pub use shape::TensorShape;
pub use tensors::to_safetensors;
