//! The folder `checkpoints/` of a run: saving, finding the newest that is whole, deleting the old.

use super::error::{CheckpointContext, CheckpointError, Result};
use super::folder::{FoundCheckpoints, SkippedCheckpoint, StoredCheckpoint};
use super::manifest::{FileEntry, Identity, MANIFEST, Manifest, SCHEMA};
use super::retention::Retention;
use super::state::TrainingState;
use super::tensors;
use crate::run::RunLock;
use crate::run::fs::{Fs, publish, write_synced};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names the newest checkpoint for people and scripts; resuming does not trust it.
const LATEST: &str = "latest";
/// What precedes the name of a checkpoint that is being deleted.
const TRASH: &str = "trash-";
/// What precedes the name of a checkpoint after which training did not go on.
const ASIDE: &str = "aside-";
/// What precedes the process number in the name of a checkpoint that is being written.
const TEMPORARY: &str = ".tmp-";

/// Free space wanted, as a multiple of a checkpoint's size: the new one, its like, and some air.
const SPACE: f64 = 2.2;

/// A run's checkpoints.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    fs: Arc<dyn Fs>,
    folder: PathBuf,
    identity: Identity,
    retention: Retention,
}

/// What saving did.
#[derive(Debug)]
pub struct Saved {
    /// The checkpoint, published and verified.
    pub checkpoint: StoredCheckpoint,
    /// Steps of the old ones that were deleted.
    pub deleted: Vec<u64>,
    /// What failed afterwards, at no cost to the checkpoint: the hint `latest`, or deleting old ones.
    pub warnings: Vec<CheckpointError>,
}

/// The folder of the checkpoint at this step.
pub fn folder_name(step: u64) -> String {
    format!("step-{step:09}")
}

fn step_of(name: &str) -> Option<u64> {
    let step = name.strip_prefix("step-")?.parse().ok()?;
    (folder_name(step) == name).then_some(step)
}

impl Checkpoints {
    /// The checkpoints in `folder`, which is made when missing.
    pub fn open(fs: Arc<dyn Fs>, folder: &Path, identity: Identity, retention: Retention) -> Result<Checkpoints> {
        fs.create_folder(folder).doing("make", folder)?;
        Ok(Checkpoints { fs, folder: folder.into(), identity, retention })
    }

    /// Steps with a checkpoint, whole or not.
    pub fn steps(&self) -> Result<BTreeSet<u64>> {
        let names = self.fs.list(&self.folder).doing("list", &self.folder)?;
        Ok(names.iter().filter_map(|name| step_of(name)).collect())
    }

    /// Opens and verifies one checkpoint.
    pub fn get(&self, step: u64) -> Result<StoredCheckpoint> {
        let stored = StoredCheckpoint::open(self.fs.clone(), self.folder.join(folder_name(step)), step)?;
        stored.verify()?;
        Ok(stored)
    }

    /// The newest checkpoint that verifies, and why newer ones do not. Changes nothing on disk.
    ///
    /// It is an error when there are checkpoints and none verifies: to begin anew is for the user to decide.
    pub fn newest_valid(&self) -> Result<FoundCheckpoints> {
        let mut skipped = Vec::new();
        for step in self.steps()?.into_iter().rev() {
            match self.get(step) {
                Ok(stored) => return Ok(FoundCheckpoints { newest: Some(stored), skipped, removed: vec![] }),
                Err(reason) => skipped.push(SkippedCheckpoint { step, reason }),
            }
        }
        let count = skipped.len();
        match skipped.into_iter().next() {
            None => Ok(FoundCheckpoints { newest: None, skipped: vec![], removed: vec![] }),
            Some(SkippedCheckpoint { reason, .. }) => {
                Err(CheckpointError::AllDamaged { folder: self.folder.clone(), count, newest: Box::new(reason) })
            }
        }
    }

    /// [`Self::newest_valid`], after removing what an earlier process left half-written or half-deleted.
    ///
    /// Only who holds the run's lock may do this: otherwise another process may be writing at this moment.
    pub fn resume(&self, held: &RunLock) -> Result<FoundCheckpoints> {
        let removed = self.remove_unfinished(held)?;
        Ok(FoundCheckpoints { removed, ..self.newest_valid()? })
    }

    /// Removes what an earlier process left half-written or half-deleted; gives the names.
    pub fn remove_unfinished(&self, _held: &RunLock) -> Result<Vec<String>> {
        let mut removed = Vec::new();
        for name in self.fs.list(&self.folder).doing("list", &self.folder)? {
            let temporary = name.split_once(TEMPORARY).is_some_and(|(name, _)| step_of(name).is_some());
            if temporary || name.strip_prefix(TRASH).is_some_and(|name| step_of(name).is_some()) {
                let path = self.folder.join(&name);
                self.fs.remove_folder(&path).doing("remove", &path)?;
                removed.push(name);
            }
        }
        Ok(removed)
    }

    /// Gives every checkpoint after `step`, whole or not, a name under which it is no longer one of the run's, because training
    /// goes on from `step`. Gives the old and new names.
    pub fn set_aside_after(&self, _held: &RunLock, step: u64) -> Result<Vec<(String, String)>> {
        let mut renamed = Vec::new();
        for later in self.steps()?.into_iter().filter(|later| *later > step) {
            let (name, aside) = (folder_name(later), format!("{ASIDE}{}", folder_name(later)));
            self.move_to(&name, &aside)?;
            renamed.push((name, aside));
        }
        Ok(renamed)
    }

    /// Saves `state`: published whole and durable, verified, and only then are old ones deleted.
    ///
    /// `scores` are the metric's values by step, for the rule that keeps the best. A checkpoint of this step that is
    /// there already and whole is left as it is, and the old ones are deleted as `scores` says now.
    pub fn save(&self, state: &TrainingState, scores: &BTreeMap<u64, f64>) -> Result<Saved> {
        let step = state.progress.step;
        let existing = self.steps()?.contains(&step);
        if existing && let Ok(checkpoint) = self.get(step) {
            let same = checkpoint.manifest().images_seen == state.progress.images_seen;
            if same && checkpoint.check_belongs_to(&self.identity).is_ok() {
                return Ok(self.tidy(checkpoint, scores));
            }
        }
        self.check_space(tensors::expected_bytes(state))?;
        let temporary = self.folder.join(format!("{}{TEMPORARY}{}", folder_name(step), std::process::id()));
        let published = self.write(state, &temporary).and_then(|()| self.publish(&temporary, step, existing));
        if let Err(error) = published {
            // The first error is the one to report; what stays behind is removed on resuming.
            let _ = self.fs.remove_folder(&temporary);
            return Err(error);
        }
        Ok(self.tidy(self.get(step)?, scores))
    }

    /// Names the newest checkpoint, and deletes old ones.
    fn tidy(&self, checkpoint: StoredCheckpoint, scores: &BTreeMap<u64, f64>) -> Saved {
        let step = checkpoint.manifest().step;
        let latest = self.folder.join(LATEST);
        let hinted = publish(self.fs.as_ref(), &latest, format!("{}\n", folder_name(step)).as_bytes());
        let mut warnings: Vec<_> = hinted.doing("write", &latest).err().into_iter().collect();
        let mut deleted = Vec::new();
        match self.steps() {
            Ok(steps) => {
                for old in self.retention.to_delete(&steps, step, scores) {
                    match self.delete(old) {
                        Ok(()) => deleted.push(old),
                        Err(error) => warnings.push(error),
                    }
                }
            }
            Err(error) => warnings.push(error),
        }
        Saved { checkpoint, deleted, warnings }
    }

    /// Refuses when the disk has no room for a checkpoint of this state; worth asking before the first step.
    pub fn preflight(&self, state: &TrainingState) -> Result<()> {
        self.check_space(tensors::expected_bytes(state))
    }

    fn check_space(&self, bytes: u64) -> Result<()> {
        let needed = (bytes as f64 * SPACE) as u64;
        let free = self.fs.free_space(&self.folder).doing("ask for the free space of", &self.folder)?;
        if free < needed {
            return Err(CheckpointError::NoSpace { path: self.folder.clone(), needed, free });
        }
        Ok(())
    }

    /// Every file and then the manifest, all durable.
    fn write(&self, state: &TrainingState, folder: &Path) -> Result<()> {
        self.fs.create_folder(folder).doing("make", folder)?;
        let mut files = BTreeMap::new();
        tensors::encode(state, |name, bytes| {
            let path = folder.join(name);
            write_synced(self.fs.as_ref(), &path, bytes).doing("write", &path)?;
            let blake3 = blake3::hash(bytes).to_hex().to_string();
            files.insert(name.to_string(), FileEntry { bytes: bytes.len() as u64, blake3 });
            Ok(())
        })?;
        let manifest = Manifest {
            schema: SCHEMA,
            step: state.progress.step,
            images_seen: state.progress.images_seen,
            identity: self.identity.clone(),
            files,
        };
        let path = folder.join(MANIFEST);
        write_synced(self.fs.as_ref(), &path, &manifest.write()).doing("write", &path)?;
        self.fs.sync_folder(folder).doing("sync", folder)
    }

    /// One rename: from here on the checkpoint exists. A damaged one of the same step makes way first.
    fn publish(&self, temporary: &Path, step: u64, existing: bool) -> Result<()> {
        let trash = if existing { Some(self.set_aside(step)?) } else { None };
        let place = self.folder.join(folder_name(step));
        self.fs.rename(temporary, &place).doing("publish", &place)?;
        self.fs.sync_folder(&self.folder).doing("sync", &self.folder)?;
        trash.map_or(Ok(()), |trash| self.fs.remove_folder(&trash).doing("remove", &trash))
    }

    /// Renamed first, durably, so that nothing half-deleted ever bears a checkpoint's name.
    fn delete(&self, step: u64) -> Result<()> {
        let trash = self.set_aside(step)?;
        self.fs.remove_folder(&trash).doing("remove", &trash)
    }

    fn set_aside(&self, step: u64) -> Result<PathBuf> {
        self.move_to(&folder_name(step), &format!("{TRASH}{}", folder_name(step)))
    }

    /// Renames a checkpoint, durably; what had the new name is removed.
    fn move_to(&self, name: &str, other: &str) -> Result<PathBuf> {
        let (place, to) = (self.folder.join(name), self.folder.join(other));
        match self.fs.remove_folder(&to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).doing("remove", &to),
            _ => self.fs.rename(&place, &to).doing("set aside", &place)?,
        }
        self.fs.sync_folder(&self.folder).doing("sync", &self.folder)?;
        Ok(to)
    }
}
