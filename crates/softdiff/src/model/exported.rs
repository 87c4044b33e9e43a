//! An exported model as it is opened: the manifest decides which of its files count.

use super::export::{CARD, DESCRIPTION, MANIFEST, ModelManifest, SCHEMA};
use super::guide;
use super::{ModelError, WEIGHTS};
use crate::run::fs::{Disk, read_up_to};
use std::path::{Path, PathBuf};

/// Longest manifest that is read.
const LONGEST: u64 = 1 << 20;
/// What every model has.
const REQUIRED: [&str; 3] = ["config.toml", "prior.safetensors", WEIGHTS];

/// The folder of an exported model.
pub(super) struct ExportedFolder {
    folder: PathBuf,
    /// None in a folder whose manifest was removed.
    pub manifest: Option<ModelManifest>,
}

impl ExportedFolder {
    /// Whether `folder` is an exported model, whole or not.
    pub fn is_at(folder: &Path) -> bool {
        [WEIGHTS, DESCRIPTION, MANIFEST].iter().any(|name| folder.join(name).is_file())
    }

    /// Checks the files that the manifest names against it.
    pub fn open(folder: &Path) -> Result<ExportedFolder, ModelError> {
        let manifest = checked_manifest(folder)?;
        match REQUIRED.into_iter().find(|name| !folder.join(name).exists()) {
            Some(name) => Err(lacks(folder, name)),
            None => Ok(ExportedFolder { folder: folder.into(), manifest }),
        }
    }

    /// Whether a file is one of the model's. Others may lie there, and nothing is known of them.
    pub fn has(&self, name: &str) -> bool {
        match &self.manifest {
            Some(manifest) => manifest.files.contains_key(name),
            None => name != guide::RECIPE && self.folder.join(name).is_file(),
        }
    }
}

/// The manifest of an exported folder, where there is one, after its files were checked against it.
fn checked_manifest(folder: &Path) -> Result<Option<ModelManifest>, ModelError> {
    let path = folder.join(MANIFEST);
    if !path.is_file() {
        return Ok(None);
    }
    let fail = |file: &Path, problem: String| ModelError::Weights { file: file.into(), problem };
    let bytes = read_up_to(&Disk, &path, LONGEST).map_err(|error| fail(&path, error.to_string()))?;
    let manifest: ModelManifest = serde_json::from_slice(&bytes).map_err(|error| fail(&path, error.to_string()))?;
    if manifest.schema > SCHEMA {
        return Err(fail(&path, format!("format {} is newer than this program knows", manifest.schema)));
    }
    if let Some(name) = REQUIRED.iter().find(|name| !manifest.files.contains_key(**name)) {
        return Err(fail(&path, format!("it does not name {name}")));
    }
    for (name, entry) in &manifest.files {
        // Names are plain: a manifest cannot point out of its folder.
        if name.contains(['/', '\\']) || name.starts_with('.') {
            return Err(fail(&path, format!("{name:?} is no file of this folder")));
        }
        // The card is for people, who may have added to it or left it out.
        if name == CARD {
            continue;
        }
        let file = folder.join(name);
        if !file.exists() {
            return Err(lacks(folder, name));
        }
        let bytes = read_up_to(&Disk, &file, entry.bytes).map_err(|error| fail(&file, error.to_string()))?;
        if blake3::hash(&bytes).to_hex().as_str() != entry.blake3 {
            return Err(fail(&file, "its content is not what the manifest says".into()));
        }
    }
    Ok(Some(manifest))
}

fn lacks(folder: &Path, file: &str) -> ModelError {
    ModelError::Lacks { folder: folder.into(), file: file.into() }
}
