//! What can be wrong with a checkpoint, or with writing one.

use softdiff_engine::{Hint, HintedMessage};
use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A checkpoint that could not be written or read.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The fields are named as the messages use them.
pub enum CheckpointError {
    /// The operating system refused.
    #[error("cannot {action} {}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// The disk would be too full to write safely.
    #[error("{needed} bytes must be free in {} to save a checkpoint, {free} are", path.display())]
    NoSpace { path: PathBuf, needed: u64, free: u64 },
    /// A file of the manifest is not there.
    #[error("{}/{file} is missing", checkpoint.display())]
    Missing { checkpoint: PathBuf, file: String },
    /// A file is shorter or longer than when it was written.
    #[error("{}/{file} is damaged: length is {found}, the manifest says {expected}", checkpoint.display())]
    Length { checkpoint: PathBuf, file: String, expected: u64, found: u64 },
    /// A file's bytes are not those that were written.
    #[error("{}/{file} is damaged: blake3 is {found}, the manifest says {expected}", checkpoint.display())]
    Hash { checkpoint: PathBuf, file: String, expected: String, found: String },
    /// A field of a file has another value than it must have.
    #[error("{}/{file}: {field} is {found}, expected {expected}", checkpoint.display())]
    Field { checkpoint: PathBuf, file: String, field: &'static str, expected: String, found: String },
    /// A file is not of its format.
    #[error("{}/{file}: {problem}", checkpoint.display())]
    Format { checkpoint: PathBuf, file: String, problem: HintedMessage },
    /// Checkpoints exist, but none of them can be used.
    #[error("none of the {count} checkpoints in {} can be used; the newest: {newest}", folder.display())]
    AllDamaged { folder: PathBuf, count: usize, newest: Box<CheckpointError> },
    /// A value to be saved is not a number.
    #[error("value {index} of {tensor} is {value}; a checkpoint holds finite numbers only")]
    NonFinite { tensor: String, index: usize, value: f32 },
    /// Two moving averages would have one file.
    #[error("two moving averages have the decay {decay}")]
    SameDecay { decay: f64 },
    /// The optimiser's moments are not those of the parameters.
    #[error("the optimiser holds {found} values for {tensor}, which has {expected}")]
    Moments { tensor: String, expected: usize, found: usize },
    /// The thread that writes checkpoints is gone.
    #[error("the thread that writes checkpoints ended unexpectedly")]
    WriterGone,
}

impl Hint for CheckpointError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        let hint = match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some space and run the same command again: it continues from the last checkpoint".into()
            }
            Self::Io { source, .. } if source.kind() == io::ErrorKind::FileTooLarge => {
                "a limit on file sizes is in force (ulimit -f): raise it and run the same command again".into()
            }
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "check who owns the run's folder".into()
            }
            Self::NoSpace { needed, free, .. } => {
                let missing = needed.saturating_sub(*free).div_ceil(1 << 20);
                format!("free {missing} MiB more, or keep fewer checkpoints; the earlier ones are untouched").into()
            }
            Self::Missing { .. } | Self::Length { .. } | Self::Hash { .. } => {
                "the file was changed after it was written: use an earlier checkpoint, or restore it from a copy".into()
            }
            Self::Field { field: "schema", .. } => "it was written by another version: use that one to read it".into(),
            Self::Field { field: "config_hash", .. } => {
                "the recipe changed since: train it in a new run folder, or restore config.toml".into()
            }
            Self::Field { field: "schedule_hash", .. } => {
                "the schedule changed since: restore schedule.json, or start a new run folder".into()
            }
            Self::Field { field: "prior_hash", .. } => {
                "the prior changed since: restore prior.safetensors, or start a new run folder".into()
            }
            Self::Field { field: "spectrum_hash", .. } => {
                "the spectrum changed since: restore spectrum.safetensors, or start a new run folder".into()
            }
            Self::AllDamaged { .. } => {
                "restore one from a copy, or move the folder away to train from the beginning".into()
            }
            Self::NonFinite { .. } => "lower the learning rate; the last checkpoint is still good".into(),
            Self::Format { problem, .. } => return problem.hint(),
            Self::SameDecay { .. } => "give each average its own decay".into(),
            _ => return None,
        };
        Some(hint)
    }
}

/// A result of this module.
pub type Result<T> = std::result::Result<T, CheckpointError>;

/// Names what was being done, and to what, when the operating system refused.
pub(super) trait CheckpointContext<T> {
    fn doing(self, action: &'static str, path: &std::path::Path) -> Result<T>;
}

impl<T> CheckpointContext<T> for io::Result<T> {
    fn doing(self, action: &'static str, path: &std::path::Path) -> Result<T> {
        self.map_err(|source| CheckpointError::Io { action, path: path.into(), source })
    }
}
