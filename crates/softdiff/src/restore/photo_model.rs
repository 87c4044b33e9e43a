//! Photographs where nothing else is said: the model, and how much work they are worth.

use super::{RestoreError, Result};
use crate::model::Model;
use softdiff_engine::hash::ContentHash;
use softdiff_engine::{atomic_file, cache, regular_file};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The environment variable that says where the model for photographs is, if elsewhere; empty, that there is none.
pub const PHOTO_MODEL: &str = "SOFTDIFF_PHOTO_MODEL";
/// Where it is in the current folder, or beside the program.
const PHOTO_FOLDER: &str = "models/photos";
/// The files of the model inside the program, by name.
const BUILT_IN: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/photo_model.rs"));

/// Where the model for photographs is. Where there is none, the one inside the program is put into the cache folder.
pub fn photo_model() -> Result<PathBuf> {
    if let Some(place) = std::env::var_os(PHOTO_MODEL) {
        return Some(PathBuf::from(place))
            .filter(|place| !place.as_os_str().is_empty())
            .ok_or(RestoreError::NoPhotoModel);
    }
    let beside = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.join(PHOTO_FOLDER)));
    let found = [Some(PathBuf::from(PHOTO_FOLDER)), beside].into_iter().flatten().find(|place| Model::is_at(place));
    match found {
        Some(place) => Ok(place),
        None => {
            // Another version may have another model.
            let parts = BUILT_IN.iter().map(|(_, bytes)| ContentHash::of(bytes)).collect::<Vec<_>>();
            let hash = ContentHash::of_parts(parts).to_string();
            let name = format!("{PHOTO_FOLDER}-{}", &hash[hash.len() - 8..]);
            unpacked(&cache::file(&name).ok_or(RestoreError::NoPhotoModel)?)
        }
    }
}

/// Writes the model inside the program, where it is not there already.
fn unpacked(folder: &Path) -> Result<PathBuf> {
    let fail = |source: io::Error| RestoreError::Unpacking { folder: folder.into(), source };
    fs::create_dir_all(folder).map_err(fail)?;
    for (name, bytes) in BUILT_IN {
        let file = folder.join(name);
        let is_there = regular_file::read(&file, bytes.len() as u64).is_ok_and(|there| there == *bytes);
        if !is_there {
            atomic_file::write_in_folder(&file, |to| to.write_all(bytes)).map_err(fail)?;
        }
    }
    Some(folder.to_path_buf()).filter(|folder| Model::is_at(folder)).ok_or(RestoreError::NoPhotoModel)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_inside_the_program_is_whole_and_mends_its_copy() {
        let folder = std::env::temp_dir().join(format!("softdiff-photo-model-{}", std::process::id()));
        for _ in 0..2 {
            let place = unpacked(&folder).unwrap();
            assert_eq!(Model::open(&place, None).unwrap().name, "photos");
            fs::write(folder.join("model.safetensors"), "damaged").unwrap();
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
