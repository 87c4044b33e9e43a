//! A file that is complete or absent: written beside its place, synced, then renamed.

use crate::diagnostics::{Failure, Outcome};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes `path` through `content`; on any failure the place is as it was before.
pub fn write(path: &Path, content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
    let temporary = beside(path)?;
    let written = write_synced(&temporary, content).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
        return written;
    }
    sync_folder(path)
}

/// Writes these bytes, or says why not.
pub fn save(path: &Path, bytes: &[u8]) -> Outcome {
    write(path, |to| to.write_all(bytes)).map_err(|error| unwritable(path, &error))
}

/// The failure of a file that could not be written.
pub fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display())).hint("check the folder and the free space")
}

fn write_synced(path: &Path, content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    content(&mut file)?;
    file.flush()?;
    file.get_ref().sync_all()
}

/// A name of this process alone, in the same folder and so on the same file system.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"));
    };
    let mut name = name.to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    Ok(path.with_file_name(name))
}

/// Without this, a power cut can take the new name back.
fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if cfg!(unix) && !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        Some(_) if cfg!(unix) => File::open(".")?.sync_all(),
        _ => Ok(()),
    }
}
