//! The few file operations that runs and checkpoints are made of, as a trait, so that a test can fail any one of them.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

/// A file system.
pub trait Fs: Debug + Send + Sync {
    /// Makes a folder and its parents; one that exists is fine.
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    /// Opens a new or emptied file to write.
    fn create(&self, path: &Path) -> io::Result<Box<dyn FsFile>>;
    /// Opens a new or existing file to write at its end.
    fn append(&self, path: &Path) -> io::Result<Box<dyn FsFile>>;
    /// Opens a file to read.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>>;
    /// Cuts a file to its first `length` bytes and makes that durable.
    fn truncate(&self, path: &Path, length: u64) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// Gives a file or folder another name, at once.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a folder and all in it.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// The names in a folder, sorted; those that are not UTF-8 are none of ours and left out.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Bytes that this user may still write where `path` is.
    fn free_space(&self, path: &Path) -> io::Result<u64>;
}

/// An open file to write.
pub trait FsFile: Send {
    /// Writes all of `bytes`.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes what was written durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// The operating system's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Fs for Disk {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        Ok(Box::new(File::create(path)?))
    }
    fn append(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        Ok(Box::new(OpenOptions::new().append(true).create(true).open(path)?))
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(File::open(path)?))
    }
    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(length)?;
        file.sync_all()
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        // Only Unix can open a folder; elsewhere the rename itself must do.
        if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
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

impl FsFile for File {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        Write::write_all(self, bytes)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// Writes a file and makes its content, though not its name, durable.
pub fn write_synced(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs.create(path)?;
    file.write_all(bytes)?;
    file.sync()
}

/// Puts a small file in its place, complete or not at all: written beside it, synced, renamed.
///
/// Only the holder of the run's lock writes, so that one temporary name is enough, and the next writer reuses it.
pub fn publish(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_os_string();
    temporary.push(".tmp");
    let temporary = Path::new(&temporary);
    write_synced(fs, temporary, bytes)?;
    fs.rename(temporary, path)?;
    path.parent().map_or(Ok(()), |folder| fs.sync_folder(folder))
}

/// Reads a whole file, or as much of it as `limit` allows and one byte more, so that a longer one is noticed.
pub fn read_up_to(fs: &dyn Fs, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs.open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
