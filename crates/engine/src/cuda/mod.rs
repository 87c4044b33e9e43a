//! The CUDA backend: the same plans as the CPU's, on cuDNN, cuBLAS and our own kernels, loaded at run time.

mod arguments;
mod compile;
mod concat_elision;
mod cublas;
mod cudnn;
mod driver;
mod executor;
mod fuse;
mod images;
mod kernels;
mod launch_batching;
mod learner;
pub(crate) mod library;
mod lower;
mod nvrtc;
mod optim;
mod params;
mod probe;
mod roofline;
mod select;
mod self_test;
mod session;
mod streams;

pub use driver::{Buffer, Chip, CudaDevice};
pub(crate) use learner::CudaLearner;

pub use compile::outline;
pub use executor::CudaExecutor;
pub use optim::DeviceAdam;
pub use params::DeviceParams;
pub use probe::{LibraryProbe, has_driver, probe};
pub use self_test::{Check, self_test};
pub use session::Session;
