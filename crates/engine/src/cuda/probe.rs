//! Which of NVIDIA's libraries can be loaded, and what to do about the others.

use super::library::SharedLibrary;
use super::{cublas, cudnn, driver, nccl, nvrtc};
use crate::error::{Error, Result};

/// The outcome of loading a library.
#[derive(Clone, Debug, PartialEq)]
pub struct LibraryProbe {
    /// Its name.
    pub what: &'static str,
    /// The name under which it was loaded, or why not and what to do.
    pub outcome: Result<String, (String, String)>,
}

/// Tries to load every library.
pub fn probe() -> Vec<LibraryProbe> {
    let name = |library: &SharedLibrary| library.name.clone();
    let loaded = [
        ("driver", driver::Driver::get().map(|t| name(&t.library))),
        ("NVRTC", nvrtc::Nvrtc::get().map(|t| name(&t.library))),
        ("cuBLAS", cublas::CublasFunctions::get().map(|t| name(&t.library))),
        ("cuBLASLt", cudnn::cublaslt().map(|library| name(&library))),
        ("cuDNN", cudnn::CudnnFunctions::get().map(|t| name(&t.library))),
        ("NCCL", nccl::Nccl::recent().map(|t| name(&t.library))),
    ];
    let split = |error: Error| match error {
        Error::Device { what, problem, hint } => (format!("{what}: {problem}"), hint),
        other => (other.to_string(), String::new()),
    };
    loaded.into_iter().map(|(what, outcome)| LibraryProbe { what, outcome: outcome.map_err(split) }).collect()
}

/// Whether there is an NVIDIA driver.
pub fn has_driver() -> bool {
    driver::Driver::get().is_ok()
}
