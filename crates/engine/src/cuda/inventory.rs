//! Which of NVIDIA's libraries are here, and what to do about those that are not.

use super::library::Library;
use super::{cublas, cudnn, driver, nvrtc};
use crate::error::{Error, Result};

/// A library that was looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// What it is for.
    pub what: &'static str,
    /// The name under which it was loaded, or why not and what to do.
    pub outcome: Result<String, (String, String)>,
}

/// Looks for every library, whether the others are there or not.
pub fn inventory() -> Vec<Found> {
    let name = |library: &Library| library.name.clone();
    let loaded = [
        ("driver", driver::Driver::get().map(|t| name(&t.library))),
        ("compiler", nvrtc::Nvrtc::get().map(|t| name(&t.library))),
        ("matrices", cublas::Library::get().map(|t| name(&t.library))),
        ("matrices, light", cudnn::light_blas().map(|library| name(&library))),
        ("convolutions", cudnn::Library::get().map(|t| name(&t.library))),
    ];
    let split = |error: Error| match error {
        Error::Device { what, problem, hint } => (format!("{what}: {problem}"), hint),
        other => (other.to_string(), String::new()),
    };
    loaded.into_iter().map(|(what, outcome)| Found { what, outcome: outcome.map_err(split) }).collect()
}

/// Whether there is an NVIDIA driver.
pub fn has_driver() -> bool {
    driver::Driver::get().is_ok()
}
