//! The studio: a page in the browser to corrupt, sample, restore and compare, served by this program alone.
//!
//! Nothing is fetched from elsewhere, nothing is written to disk, and no name from a request is ever made a path: runs are
//! looked up in the list of what there is.

mod assets;
mod corrupt;
mod guard;
pub mod http;
mod jobs;
mod models;
mod pictures;
mod restoring;
mod routes;
mod runs;
mod sampling;
mod schedule;

pub use guard::Guard;

use crate::diagnostics::Failure;
use jobs::Jobs;
use models::Models;
use pictures::Pictures;
use runs::Runs;
use std::path::PathBuf;

/// Everything that answers need.
pub struct Studio {
    guard: Guard,
    pictures: Pictures,
    scenes: corrupt::Scenes,
    models: Models,
    runs: Runs,
    jobs: Jobs,
}

impl Studio {
    /// A studio over a folder of runs and further models, computing on the device of that name.
    pub fn new(guard: Guard, runs: PathBuf, models: Vec<PathBuf>, device: String) -> Result<Studio, Failure> {
        let runs = Runs::new(runs);
        let models = Models::new(models, runs.clone(), device);
        Ok(Studio { guard, pictures: Pictures::new()?, scenes: Default::default(), models, runs, jobs: Jobs::begin()? })
    }
}
