//! The engine's atomic write, with this program's errors.

use crate::diagnostics::{Failure, Outcome};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

pub use softdiff_engine::atomic_file::{write, write_in_folder};

/// Writes these bytes, or says why not.
pub fn save(path: &Path, bytes: &[u8]) -> Outcome {
    write(path, |to| to.write_all(bytes)).map_err(|error| unwritable(path, &error))
}

/// The same for a file of a run's or model's folder, where a device or pipe is never written to.
pub fn save_in_folder(path: &Path, bytes: &[u8]) -> Outcome {
    write_in_folder(path, |to| to.write_all(bytes)).map_err(|error| unwritable(path, &error))
}

/// The failure of a file that could not be written.
pub fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display())).hint(match error.kind() {
        ErrorKind::FileTooLarge => "a limit on file sizes is in force (ulimit -f): raise it",
        _ => "check the folder and the free space",
    })
}
