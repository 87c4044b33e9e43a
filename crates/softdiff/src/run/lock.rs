//! `run.lock`: two processes cannot write one run. The folder is locked as well, so that removing the file lets nobody in.
//!
//! The operating system holds the lock and releases it when the process ends, however it ends. The file's content only
//! tells people who holds it; content without a lock is what a killed process leaves, and is taken over.

use super::error::{Result, RunContext, RunError};
use serde::{Deserialize, Serialize};
use softdiff_engine::regular_file;
use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

/// A process that holds or held a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// Its machine.
    pub host: String,
}

impl Holder {
    /// This process.
    pub(crate) fn this() -> Holder {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let name = name.or_else(|| std::env::var("HOSTNAME").ok()).or_else(|| std::env::var("COMPUTERNAME").ok());
        Holder { pid: std::process::id(), host: name.map_or("this machine".into(), |name| name.trim().into()) }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}", self.pid, self.host)
    }
}

/// The right to write a run, until dropped.
#[derive(Debug)]
pub struct RunLock {
    file: File,
    /// The folder itself, locked too, for `run.lock` can be removed.
    folder: Option<File>,
    recovered: Option<Holder>,
}

/// Longest content that is read.
const LONGEST: u64 = 4096;

impl RunLock {
    /// Takes the lock file `path` of the run in its folder, or says at once who has it.
    pub fn acquire(path: &Path) -> Result<RunLock> {
        let run = path.parent().unwrap_or(path);
        let locked = |holder| RunError::Locked { run: run.into(), holder };
        let folder = File::open(run).ok();
        // Some network file systems lock no folders; there `run.lock` must do.
        if let Some(Err(TryLockError::WouldBlock)) = folder.as_ref().map(File::try_lock) {
            let named = regular_file::open_unlinked(File::options().read(true), path);
            return Err(locked(named.ok().and_then(|mut file| read(&mut file))));
        }
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = regular_file::open_unlinked(options, path).doing("open", path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(locked(read(&mut file)));
            }
            Err(TryLockError::Error(source)) => {
                return Err(RunError::Io { action: "lock", path: path.into(), source });
            }
        }
        let recovered = read(&mut file);
        let Ok(text) = serde_json::to_string(&Holder::this()) else { unreachable!("a holder is always JSON") };
        let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{text}"));
        written.doing("write", path)?;
        Ok(RunLock { file, folder, recovered })
    }

    /// The process that ended without releasing the lock, when there was one: killed, or the machine went down.
    pub fn recovered(&self) -> Option<&Holder> {
        self.recovered.as_ref()
    }
}

/// Who the file names; nothing when it is empty, garbled or closed to readers.
fn read(file: &mut File) -> Option<Holder> {
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

impl Drop for RunLock {
    /// An emptied file says that the run was left in order. The file itself stays: to remove it would be a race.
    fn drop(&mut self) {
        let _ = self.file.set_len(0);
        // Unlocked by name, not by closing: a child being spawned at this moment may share the descriptor.
        let _ = self.file.unlock();
        let _ = self.folder.as_ref().map(File::unlock);
    }
}
