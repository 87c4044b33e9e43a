//! The engine's atomic write, with this program's errors.

use crate::diagnostics::{Failure, Outcome};
use std::io::{self, Write};
use std::path::Path;

pub use softdiff_engine::atomic_file::write;

/// Writes these bytes, or says why not.
pub fn save(path: &Path, bytes: &[u8]) -> Outcome {
    write(path, |to| to.write_all(bytes)).map_err(|error| unwritable(path, &error))
}

/// The failure of a file that could not be written.
pub fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display())).hint("check the folder and the free space")
}
