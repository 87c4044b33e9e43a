//! What can be wrong with a run's folder.

use super::lock::Holder;
use softdiff_engine::Hint;
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A run that cannot be read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The fields are named as the messages use them.
pub enum RunError {
    /// The operating system refused.
    #[error("cannot {action} {}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// Another process writes this run.
    #[error("{} is being written by {}", run.display(), holder.as_ref().map_or("another process".into(), Holder::to_string))]
    Locked { run: PathBuf, holder: Option<Holder> },
    /// A line of the event stream is not an event.
    #[error("line {line} of {}: {problem}", path.display())]
    Event { path: PathBuf, line: u64, problem: String },
    /// The event stream is not written to after a write failed half-way.
    #[error("{} is closed since an earlier write to it failed", path.display())]
    EventsClosed { path: PathBuf },
}

impl Hint for RunError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        match self {
            RunError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space and run the same command again".into())
            }
            RunError::Io { action: "lock", .. } => {
                Some("the file system may not support locks: use a folder on a local disk".into())
            }
            RunError::Locked { holder: Some(holder), .. } => {
                Some(format!("wait until it is done, end it with `kill {}`, or use another folder", holder.pid).into())
            }
            RunError::Locked { holder: None, .. } => Some("wait until it is done, or use another folder".into()),
            RunError::Event { .. } => {
                Some("the file was changed by something else: correct or remove that line".into())
            }
            _ => None,
        }
    }
}

/// A result of this module.
pub type Result<T> = std::result::Result<T, RunError>;

/// Names what was being done, and to what, when the operating system refused.
pub(super) trait RunContext<T> {
    fn doing(self, action: &'static str, path: &Path) -> Result<T>;
}

impl<T> RunContext<T> for io::Result<T> {
    fn doing(self, action: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| RunError::Io { action, path: path.into(), source })
    }
}
