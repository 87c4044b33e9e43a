//! The folder of a run that failed to start, which goes again.

use super::{RunFolder, RunLock};
use std::path::{Path, PathBuf};

/// What is not there yet before a run is begun in a folder.
pub struct NewFolder<'a> {
    folder: &'a RunFolder,
    /// The folder and those above it that do not exist, the innermost first.
    missing: Vec<PathBuf>,
}

impl NewFolder<'_> {
    /// Looks what there is, before the folder is locked.
    pub fn of(folder: &RunFolder) -> NewFolder<'_> {
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && path.symlink_metadata().is_err();
        let missing = folder.root().ancestors().take_while(is_missing).map(Path::to_path_buf).collect();
        NewFolder { folder, missing }
    }

    /// Removes what was made since, unless there is something worth keeping: a schedule, a prior, a recipe, events, checkpoints.
    pub fn remove(&self, _held: &RunLock) {
        let folder = self.folder;
        let made =
            [folder.config(), folder.schedule(), folder.prior(), folder.spectrum(), folder.events(), folder.env()];
        if self.missing.is_empty() || made.iter().any(|file| file.exists()) {
            return;
        }
        // Of what cannot be removed, or has other content, the rest stays too.
        let _ = std::fs::remove_file(folder.preparation());
        let _ = std::fs::remove_file(folder.data());
        let _ = std::fs::remove_dir(folder.checkpoints());
        let _ = std::fs::remove_dir(folder.samples());
        let _ = std::fs::remove_file(folder.root().join("run.lock"));
        let _ = self.missing.iter().try_for_each(std::fs::remove_dir);
    }
}
