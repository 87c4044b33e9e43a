//! The few file operations that runs and checkpoints are made of, as a trait, so that a test can fail any one of them.

use softdiff_engine::atomic_file::write_exclusively;
use softdiff_engine::regular_file;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

pub use softdiff_engine::atomic_file::{AtomicFs, Disk, FsFile};

/// A file system. What is opened is a regular file and no symbolic link: a run may come from someone else.
pub trait Fs: AtomicFs {
    /// Makes a folder and its parents, durably; one that exists is fine.
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    /// Opens a new or emptied file to write.
    fn create(&self, path: &Path) -> io::Result<Box<dyn FsFile>>;
    /// Opens a new or existing file to write at its end.
    fn append(&self, path: &Path) -> io::Result<Box<dyn FsFile>>;
    /// Opens a file to read.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>>;
    /// Cuts a file to its first `length` bytes and makes that durable.
    fn truncate(&self, path: &Path, length: u64) -> io::Result<()>;
    /// Removes a folder and all in it.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// The names in a folder, sorted; those that are not UTF-8 are none of ours and left out.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Bytes that this user may still write where `path` is.
    fn free_space(&self, path: &Path) -> io::Result<u64>;
}

impl Fs for Disk {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.map_or(Ok(()), |parent| self.create_folder(parent))?;
        match fs::create_dir(path) {
            // Made by someone else in the meantime.
            Err(_) if path.is_dir() => Ok(()),
            made => made.and_then(|()| self.sync_folder(parent.unwrap_or(Path::new(".")))),
        }
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        Ok(Box::new(regular_file::open_unlinked(File::options().write(true).create(true).truncate(true), path)?))
    }
    fn append(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        Ok(Box::new(regular_file::open_unlinked(File::options().append(true).create(true), path)?))
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(regular_file::open_unlinked(File::options().read(true), path)?))
    }
    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        let file = regular_file::open_unlinked(File::options().write(true), path)?;
        file.set_len(length)?;
        file.sync_all()
    }
    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            names.extend(entry?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }
    fn free_space(&self, path: &Path) -> io::Result<u64> {
        fs4::available_space(path)
    }
}

/// Writes a file and makes its content, though not its name, durable.
pub fn write_synced(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs.create(path)?;
    file.write_all(bytes)?;
    file.sync()
}

/// Writes a file of a run, complete or not at all; only the holder of the run's lock may.
pub fn publish(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_exclusively(fs, path, |file| file.write_all(bytes))
}

/// Reads a whole file, or as much of it as `limit` allows and one byte more, so that a longer one is noticed.
pub fn read_up_to(fs: &dyn Fs, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs.open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The same where a longer file is an error, which is seen before anything is read.
pub fn read_within(fs: &dyn Fs, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    if fs::metadata(path).is_ok_and(|found| found.len() > limit) {
        return Err(regular_file::too_large(limit));
    }
    regular_file::read_to_end(fs.open(path)?, limit)
}
