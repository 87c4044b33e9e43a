//! The CUDA backend: the same plans as the CPU's, on cuDNN, cuBLAS and our own kernels, loaded at run time.

mod arguments;
mod beside;
mod ceiling;
mod cublas;
mod cudnn;
mod driver;
mod executor;
mod fuse;
mod inventory;
mod kernels;
mod layout;
mod learner;
pub(crate) mod library;
mod lower;
mod nvrtc;
mod optim;
mod pictures;
mod select;
mod self_test;
mod session;
mod slices;
mod together;
mod weights;

pub use driver::{Buffer, Chip, Device};
pub(crate) use learner::Learner;

pub use executor::Executor;
pub use inventory::{Found, has_driver, inventory};
pub use layout::outline;
pub use lower::Numbers;
pub use optim::Adam;
pub use self_test::{Check, self_test};
pub use session::Session;
pub use weights::DeviceParams;
