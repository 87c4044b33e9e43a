//! What rank 0 prepared, for the other ranks: its schedule, prior and the notes by which another recipe or other images are
//! refused. They need not see the run's folder.

use super::{RunStore, TrainError};
use crate::run::fs::read_up_to;
use crate::run::{RunError, RunFolder, RunLock};
use softdiff_engine::ranks::Ranks;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Largest file that is sent.
const LARGEST: u64 = 1 << 32;

fn files(folder: &RunFolder) -> [PathBuf; 5] {
    [folder.config(), folder.data(), folder.schedule(), folder.prior(), folder.spectrum()]
}

/// Sends what rank 0 has in its store to the other ranks.
pub(super) fn send_preparation(ranks: &Ranks, store: Option<RunStore>) -> Result<(), TrainError> {
    if ranks.others().is_none() {
        return Ok(());
    }
    ranks.broadcast(vec![u8::from(store.is_some())])?;
    let Some(store) = store else { return Ok(()) };
    for path in files(store.folder) {
        // A first byte says that the file is there.
        let bytes = match read_up_to(store.folder.fs().as_ref(), &path, LARGEST) {
            Ok(bytes) => [&[1], &bytes[..]].concat(),
            Err(error) if error.kind() == ErrorKind::NotFound => vec![],
            Err(source) => return Err(RunError::Io { action: "read", path, source }.into()),
        };
        ranks.broadcast(bytes)?;
    }
    Ok(())
}

/// A folder for the time of the preparation, with the files of rank 0.
pub(super) struct BorrowedRun {
    folder: RunFolder,
    lock: RunLock,
}

impl BorrowedRun {
    /// What [`send_preparation`] sends.
    pub(super) fn receive(ranks: &Ranks) -> Result<Option<BorrowedRun>, TrainError> {
        if ranks.broadcast(vec![])? != [1] {
            return Ok(None);
        }
        // A name that nobody can foresee, and a folder that was not there.
        let name = format!("softdiff-rank-{}-{:016x}", ranks.rank(), RandomState::new().hash_one(std::process::id()));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).map_err(|source| RunError::Io { action: "make", path: path.clone(), source })?;
        let folder = RunFolder::new(&path);
        let lock = folder.lock()?;
        let borrowed = BorrowedRun { folder, lock };
        for path in files(&borrowed.folder) {
            if let [1, bytes @ ..] = &ranks.broadcast(vec![])?[..] {
                borrowed.store().publish(&path, bytes)?;
            }
        }
        Ok(Some(borrowed))
    }

    pub(super) fn store(&self) -> RunStore<'_> {
        RunStore { folder: &self.folder, lock: &self.lock }
    }
}

impl Drop for BorrowedRun {
    fn drop(&mut self) {
        // What stays in the folder for temporary files harms nobody.
        let _ = std::fs::remove_dir_all(self.folder.root());
    }
}
