//! The Python package `softdiff`: the library in process, with NumPy arrays. Glue only: arguments become the library's types,
//! and its results arrays.

mod arguments;
mod corruption;
mod dataset;
mod error;
mod fetch;
mod images;
mod metrics;
mod model;
mod path;
mod progress;
mod restore;
mod sampling;
mod schedule;
mod steps;
mod train;
mod worker;

/// The compiled part of `softdiff`.
#[pyo3::pymodule]
mod _softdiff {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::corruption::{Corruption, corrupt};
    #[pymodule_export]
    use crate::dataset::read_images;
    #[pymodule_export]
    use crate::error::Error;
    #[pymodule_export]
    use crate::fetch::fetch;
    #[pymodule_export]
    use crate::metrics::{evaluate, fid};
    #[pymodule_export]
    use crate::model::{Model, load};
    #[pymodule_export]
    use crate::path::Path;
    #[pymodule_export]
    use crate::restore::{Restored, photo_model};
    #[pymodule_export]
    use crate::sampling::sample;
    #[pymodule_export]
    use crate::schedule::{Schedule, make};
    #[pymodule_export]
    use crate::steps::DenoiseSteps;
    #[pymodule_export]
    use crate::train::{Run, train};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.py().get_type::<Error>().setattr("hint", module.py().None())?;
        // NVIDIA's libraries may be Python packages, beside this one.
        let folders: Vec<std::path::PathBuf> = module.py().import("sys")?.getattr("path")?.extract()?;
        folders.into_iter().for_each(softdiff::engine::cuda::add_python_packages);
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
