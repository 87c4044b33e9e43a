//! The studio: a page in the browser to corrupt, sample, restore and compare, served by this program alone.
//!
//! Nothing is fetched from elsewhere, nothing is written to disk, and no name from a request is ever made a path: runs are
//! looked up in the list of what there is.

#![forbid(unsafe_code)]

mod assets;
mod corrupt;
mod guard;
mod http;
mod images;
mod jobs;
mod models;
mod restore;
mod routes;
mod runs;
mod sample;
mod schedule;

use guard::AccessGuard;
use images::UploadedImages;
use jobs::Jobs;
use models::Models;
use runs::Runs;
use softdiff::data::DataError;
use softdiff::hint::Hint;
use std::borrow::Cow;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

/// What the studio shows, and where it computes.
pub struct StudioOptions {
    /// The folder with runs to show.
    pub runs: PathBuf,
    /// Further models: a run's folder, one of its checkpoints, or an exported model.
    pub models: Vec<PathBuf>,
    /// The name of a device, as [`softdiff::engine::Device::open`] takes it.
    pub device: String,
}

/// Why the studio could not be opened.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The fields are named as the messages use them.
pub enum StudioError {
    /// A model that is not a folder.
    #[error("{} is no folder", .0.display())]
    NoFolder(PathBuf),
    /// A port in use, or an address of another machine.
    #[error("cannot listen at {address}: {error}")]
    Listen { address: SocketAddr, error: std::io::Error },
    /// A thread that cannot be started.
    #[error("{0}")]
    Thread(#[from] std::io::Error),
    /// The embedded images.
    #[error("{0}")]
    Data(#[from] DataError),
}

impl Hint for StudioError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            StudioError::NoFolder(_) => "give a run's folder, one of its checkpoints, or an exported model".into(),
            StudioError::Listen { .. } => "give another --port, or --port 0 for a free one".into(),
            _ => return None,
        })
    }
}

/// Serves the studio at an address from threads of its own, until the program ends; gives the page's URL, with its token
/// beyond loopback.
pub fn serve(address: SocketAddr, options: StudioOptions) -> Result<String, StudioError> {
    if let Some(model) = options.models.iter().find(|model| !model.is_dir()) {
        return Err(StudioError::NoFolder(model.clone()));
    }
    let listener = TcpListener::bind(address).map_err(|error| StudioError::Listen { address, error })?;
    let guard = AccessGuard::new(listener.local_addr()?);
    let url = guard.url();
    http::serve(listener, Arc::new(Studio::new(guard, options)?))?;
    Ok(url)
}

/// Everything that answers need.
struct Studio {
    guard: AccessGuard,
    images: UploadedImages,
    scenes: corrupt::Scenes,
    models: Models,
    runs: Runs,
    jobs: Jobs,
}

impl Studio {
    fn new(guard: AccessGuard, options: StudioOptions) -> Result<Studio, StudioError> {
        let runs = Runs::new(options.runs);
        let models = Models::new(options.models, runs.clone(), options.device);
        let (images, scenes) = (UploadedImages::new()?, Default::default());
        Ok(Studio { guard, images, scenes, models, runs, jobs: Jobs::begin()? })
    }
}
