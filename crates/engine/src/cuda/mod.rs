//! The CUDA backend: the same plans as the CPU's, on cuDNN, cuBLAS and our own kernels, loaded at run time.

mod arguments;
mod compile;
mod concat_elision;
mod cublas;
mod cudnn;
mod driver;
mod executor;
mod fuse;
mod gradient_sum;
mod images;
mod kernels;
mod launch_batching;
mod learner;
pub(crate) mod library;
mod lower;
mod nccl;
mod nvrtc;
mod optim;
mod params;
mod probe;
#[cfg_attr(not(unix), allow(dead_code))]
mod python_packages;
mod roofline;
mod select;
mod self_test;
mod session;
mod share_layout;
mod streams;

pub use driver::{Buffer, Chip, CudaDevice};
pub(crate) use learner::CudaLearner;

pub use compile::outline;
pub use executor::CudaExecutor;
pub use nccl::{NcclId, NcclRank};
pub use optim::DeviceAdam;
pub use params::DeviceParams;
pub use probe::{LibraryProbe, has_driver, probe};
pub use python_packages::add_python_packages;
pub use self_test::self_test;
pub use session::Session;
