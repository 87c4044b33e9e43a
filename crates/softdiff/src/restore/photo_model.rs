//! Photographs where nothing else is said: the model, and how much work they are worth.

use super::{RestoreError, Result};
use crate::model::Model;
use std::path::PathBuf;

/// The environment variable that says where the model for photographs is, if elsewhere.
pub const PHOTO_MODEL: &str = "SOFTDIFF_PHOTO_MODEL";
/// Where it is in the current folder, or beside the program.
pub(super) const PHOTO_FOLDER: &str = "models/photos";

/// Where the model for photographs is.
pub fn photo_model() -> Result<PathBuf> {
    if let Some(place) = std::env::var_os(PHOTO_MODEL).filter(|place| !place.is_empty()) {
        return Ok(place.into());
    }
    let beside = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.join(PHOTO_FOLDER)));
    let places = [Some(PathBuf::from(PHOTO_FOLDER)), beside];
    places.into_iter().flatten().find(|place| Model::is_at(place)).ok_or(RestoreError::NoPhotoModel)
}

/// How much work a photograph is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PhotoQuality {
    /// One sample in 8 steps.
    Fast,
    /// One sample in 15 steps.
    #[default]
    Default,
    /// The mean of 4 samples in 30 steps.
    Best,
}

impl PhotoQuality {
    /// Samples and steps.
    pub fn work(self) -> (u64, usize) {
        match self {
            PhotoQuality::Fast => (1, 8),
            PhotoQuality::Default => (1, 15),
            PhotoQuality::Best => (4, 30),
        }
    }
}
