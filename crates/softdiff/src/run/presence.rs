//! Whether a run is being written right now, without touching it: taking its lock to see would refuse a writer.

use super::fs::read_up_to;
use super::{Holder, RunFolder};
use serde::Serialize;
use std::path::Path;

/// Longest lock file that is read.
const LONGEST: u64 = 4096;

/// Whether a process writes a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// Nobody: the lock was given back in order, or was never taken.
    Absent,
    /// The process that took the lock ended without giving it back.
    Dead,
    /// It is at work.
    Alive,
    /// Not known: another machine, or a system without /proc.
    Unknown,
}

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Now.
    pub resident: u64,
    /// At most, so far.
    pub peak: u64,
}

impl RunFolder {
    /// Who the lock file names, and whether that process still has the file open.
    pub fn writer(&self) -> (Option<Holder>, Presence) {
        let path = self.root().join("run.lock");
        let bytes = read_up_to(self.fs().as_ref(), &path, LONGEST).unwrap_or_default();
        let Ok(holder) = serde_json::from_slice::<Holder>(&bytes) else { return (None, Presence::Absent) };
        let presence = presence(&holder, &path);
        (Some(holder), presence)
    }
}

fn presence(holder: &Holder, lock: &Path) -> Presence {
    if holder.host != Holder::this().host || !Path::new("/proc/self").exists() {
        return Presence::Unknown;
    }
    let process = Path::new("/proc").join(holder.pid.to_string());
    if !process.exists() {
        return Presence::Dead;
    }
    // A number may be given out again: the writer is the process that has the lock file open.
    match (process.join("fd").read_dir(), lock.canonicalize()) {
        (Ok(files), Ok(lock)) => {
            let open = files.flatten().filter_map(|file| file.path().read_link().ok()).any(|file| file == lock);
            if open { Presence::Alive } else { Presence::Dead }
        }
        // Somebody else's process.
        _ => Presence::Alive,
    }
}

impl Holder {
    /// Memory of this process, where the system tells.
    pub fn memory(&self) -> Option<Memory> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
        };
        Some(Memory { resident: bytes("VmRSS:")?, peak: bytes("VmHWM:")? })
    }
}
