//! The studio: a page in the browser to corrupt, sample, restore and compare, served by this program alone.
//!
//! Nothing is fetched from elsewhere, nothing is written to disk, and no name from a request is ever made a path: runs are
//! looked up in the list of what there is.

#![forbid(unsafe_code)]

mod assets;
mod corrupt;
mod guard;
mod images;
mod jobs;
mod models;
mod problem;
mod query;
mod restore;
mod routes;
mod runs;
mod sample;
mod schedule;
mod server;

use guard::AccessGuard;
use images::UploadedImages;
use jobs::Jobs;
use models::Models;
use runs::Runs;
use softdiff::data::DataError;
use softdiff::hint::Hint;
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// What the studio shows, and where it computes.
pub struct StudioOptions {
    /// The folder with runs to show.
    pub runs: PathBuf,
    /// Further models: a run's folder, one of its checkpoints, or an exported model.
    pub models: Vec<PathBuf>,
    /// The model for photographs; listed last.
    pub photo_model: Option<PathBuf>,
    /// The name of a device, as [`softdiff::engine::Device::open`] takes it.
    pub device: String,
    /// Whether requests must have the token of the printed address; an address beyond loopback needs one.
    pub token: bool,
}

/// Why the studio could not be opened.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The fields are named as the messages use them.
pub enum StudioError {
    /// A model that is not a folder.
    #[error("{} is no folder", .0.display())]
    NoFolder(PathBuf),
    /// An address that other machines reach, without a token.
    #[error("{0} can be reached from other machines, and needs a token")]
    NeedsToken(IpAddr),
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
            StudioError::NeedsToken(_) => "leave out --no-token, or --host".into(),
            StudioError::Listen { .. } => "give another --port, or --port 0 for a free one".into(),
            _ => return None,
        })
    }
}

/// Serves the studio at an address from threads of its own, until the program ends; gives the page's URL, with its token.
pub fn serve(address: SocketAddr, options: StudioOptions) -> Result<String, StudioError> {
    if let Some(model) = options.models.iter().find(|model| !model.is_dir()) {
        return Err(StudioError::NoFolder(model.clone()));
    }
    if !options.token && !address.ip().is_loopback() {
        return Err(StudioError::NeedsToken(address.ip()));
    }
    let listener = TcpListener::bind(address).map_err(|error| StudioError::Listen { address, error })?;
    let guard = AccessGuard::new(listener.local_addr()?, options.token);
    let url = guard.url();
    server::serve(listener, routes::router(Arc::new(Studio::new(guard, options)?)))?;
    Ok(url)
}

/// The state that all requests share.
struct Studio {
    guard: AccessGuard,
    images: UploadedImages,
    scenes: corrupt::Scenes,
    models: Models,
    runs: Runs,
    jobs: Jobs,
    room_for_bodies: Arc<Semaphore>,
}

impl Studio {
    fn new(guard: AccessGuard, options: StudioOptions) -> Result<Studio, StudioError> {
        let runs = Runs::new(options.runs);
        let models = Models::new(options.models, options.photo_model, runs.clone(), options.device);
        let (images, scenes) = (UploadedImages::new()?, Default::default());
        let room_for_bodies = Arc::new(Semaphore::new(routes::BODY_UNITS));
        Ok(Studio { guard, images, scenes, models, runs, jobs: Jobs::begin()?, room_for_bodies })
    }
}
