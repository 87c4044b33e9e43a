//! Photographs where nothing else is said: the model, and how much work they are worth.

use super::{RestoreError, Result};
use crate::model::Model;
use std::path::{Path, PathBuf};

/// The environment variable that says where the model for photographs is, if elsewhere; empty, that there is none.
pub const PHOTO_MODEL: &str = "SOFTDIFF_PHOTO_MODEL";
/// Where it is in the current folder, beside the program, or in the sources.
pub(super) const PHOTO_FOLDER: &str = "models/photos";

/// Where the model for photographs is.
pub fn photo_model() -> Result<PathBuf> {
    if let Some(place) = std::env::var_os(PHOTO_MODEL) {
        return Some(PathBuf::from(place))
            .filter(|place| !place.as_os_str().is_empty())
            .ok_or(RestoreError::NoPhotoModel);
    }
    let beside = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.join(PHOTO_FOLDER)));
    // For a program that was installed from sources that are still there.
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map(|root| root.join(PHOTO_FOLDER));
    let places = [Some(PathBuf::from(PHOTO_FOLDER)), beside, sources];
    places.into_iter().flatten().find(|place| Model::is_at(place)).ok_or(RestoreError::NoPhotoModel)
}

/// How much work a photograph is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PhotoQuality {
    /// 8 evaluations of the network.
    Fast,
    /// 16.
    #[default]
    Default,
    /// 32.
    Best,
}

impl PhotoQuality {
    /// Evaluations of the network for the best guess, and steps of each sample that is asked for.
    pub fn steps(self) -> usize {
        match self {
            PhotoQuality::Fast => 8,
            PhotoQuality::Default => 16,
            PhotoQuality::Best => 32,
        }
    }
}
