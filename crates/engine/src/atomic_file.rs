//! A file that is complete or absent: written under a temporary name in its folder, synced, then renamed.
//!
//! The temporary file is always a new one (`O_EXCL`), so that a symbolic link at its name is never followed. A process that ends
//! on the way removes its temporary files by [`remove_temporaries`].

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The operations that an atomic write is made of, as a trait, so that a test can fail any one of them.
pub trait AtomicFs: Debug + Send + Sync {
    /// Opens a new file to write; one that exists, even as a symbolic link, is an error.
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn FsFile>>;
    /// Gives a file or folder another name, at once.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file, or a symbolic link itself.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// An open file to write.
pub trait FsFile: Write + Send {
    /// Makes what was written durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// The operating system's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl AtomicFs for Disk {
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        Ok(Box::new(File::create_new(path)?))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        // Only Unix can open a folder; elsewhere the rename itself must do.
        if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
    }
}

impl FsFile for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// The file that `content` writes to, through a buffer.
pub type Output = BufWriter<Box<dyn FsFile>>;

/// Writes `path` through `content`; on any failure the file is as it was before. A device or pipe is written to directly: this is
/// for paths that the user gives.
///
/// Any number of processes may write the same file: each has temporary names of its own, and the last rename counts.
pub fn write(path: &Path, content: impl FnOnce(&mut Output) -> io::Result<()>) -> io::Result<()> {
    if is_device(path) {
        let mut file: Output = BufWriter::new(Box::new(File::options().write(true).open(path)?));
        return content(&mut file).and_then(|()| file.flush());
    }
    write_in_folder(path, content)
}

/// The same for a file of a run or model folder, which someone else may have made: a device, a pipe or a symbolic link at its
/// name is replaced, and never written to.
pub fn write_in_folder(path: &Path, content: impl FnOnce(&mut Output) -> io::Result<()>) -> io::Result<()> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = with_suffix(path, &format!(".{}-{number}.tmp", std::process::id()))?;
        match create(&Disk, &temporary) {
            // Left by an earlier process of the same number, or a process in another container.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            file => return replace(&Disk, file?, &temporary, path, content),
        }
    }
}

/// The same for a file with one writer at a time, such as the holder of a lock, on any file system.
///
/// One temporary name is enough here, and what an earlier writer left there is removed.
pub fn write_exclusively(
    fs: &dyn AtomicFs,
    path: &Path,
    content: impl FnOnce(&mut Output) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = with_suffix(path, ".tmp")?;
    match fs.remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    replace(fs, create(fs, &temporary)?, &temporary, path, content)
}

/// Removes the temporary files of this process. From then on it can neither make nor rename one: a thread that tries waits
/// for ever. For a process that is about to end.
pub fn remove_temporaries() {
    let temporaries = temporaries();
    for path in temporaries.iter() {
        // There is nobody left to tell.
        let _ = fs::remove_file(path);
    }
    std::mem::forget(temporaries);
}

/// A file that is there only while work goes on, such as a preview: removed when this is dropped, or by
/// [`remove_temporaries`].
#[derive(Debug)]
pub struct PassingFile(PathBuf);

impl PassingFile {
    /// Nothing is written yet.
    pub fn new(path: &Path) -> PassingFile {
        PassingFile(path.into())
    }

    /// Writes the file, or replaces what this wrote before.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        write(&self.0, |to| to.write_all(bytes))?;
        temporaries().insert(self.0.clone());
        Ok(())
    }
}

impl Drop for PassingFile {
    fn drop(&mut self) {
        if temporaries().remove(&self.0) {
            // One that somebody else has removed is no loss.
            let _ = fs::remove_file(&self.0);
        }
    }
}

/// The temporary files that are being written.
fn temporaries() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    static TEMPORARIES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    // A panic elsewhere leaves the names right.
    TEMPORARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn create(fs: &dyn AtomicFs, temporary: &Path) -> io::Result<Box<dyn FsFile>> {
    let mut temporaries = temporaries();
    let file = fs.create_new(temporary)?;
    temporaries.insert(temporary.into());
    Ok(file)
}

fn replace(
    fs: &dyn AtomicFs,
    file: Box<dyn FsFile>,
    temporary: &Path,
    path: &Path,
    content: impl FnOnce(&mut Output) -> io::Result<()>,
) -> io::Result<()> {
    let filled = fill(file, content);
    {
        let mut temporaries = temporaries();
        let renamed = filled.and_then(|()| fs.rename(temporary, path));
        if renamed.is_err() {
            // The first error is the one to report.
            let _ = fs.remove_file(temporary);
        }
        temporaries.remove(temporary);
        renamed?;
    }
    // Without this, a power cut can take the new name back.
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => fs.sync_folder(folder),
        _ => fs.sync_folder(Path::new(".")),
    }
}

fn fill(file: Box<dyn FsFile>, content: impl FnOnce(&mut Output) -> io::Result<()>) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    content(&mut file)?;
    file.flush()?;
    file.get_mut().sync()
}

/// Whether there is something at this path that must not be replaced by a file: a device, a pipe, `/dev/stdout`.
fn is_device(path: &Path) -> bool {
    let found = fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
    found || cfg!(unix) && path.parent() == Some(Path::new("/dev"))
}

/// A name in the same folder and so on the same file system.
fn with_suffix(path: &Path, suffix: &str) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "the path names no file"))?;
    let mut name: OsString = name.to_os_string();
    name.push(suffix);
    Ok(path.with_file_name(name))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt, symlink};

    /// An empty folder for one test.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("softdiff-atomic-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_symbolic_link_at_the_temporary_name_is_not_followed() {
        let folder = folder("links");
        let (path, other) = (folder.join("file"), folder.join("other"));
        fs::write(&other, "untouched").unwrap();
        symlink(&other, folder.join("file.tmp")).unwrap();
        for number in 0..100 {
            symlink(&other, folder.join(format!("file.{}-{number}.tmp", std::process::id()))).unwrap();
        }
        write(&path, |file| file.write_all(b"shared")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "shared");
        write_exclusively(&Disk, &path, |file| file.write_all(b"exclusive")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "exclusive");
        assert!(!path.is_symlink());
        assert_eq!(fs::read_to_string(&other).unwrap(), "untouched");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = folder("failed");
        let path = folder.join("file");
        fs::write(&path, "old").unwrap();
        let fail = |file: &mut Output| file.write_all(b"half").and(Err(io::Error::other("no more")));
        assert_eq!(write(&path, fail).unwrap_err().to_string(), "no more");
        assert_eq!(write_exclusively(&Disk, &path, fail).unwrap_err().to_string(), "no more");
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_device_or_pipe_in_a_folder_of_someone_else_is_replaced_and_not_written_to() {
        let folder = folder("others");
        let (device, pipe) = (folder.join("device"), folder.join("pipe"));
        symlink("/dev/null", &device).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [device, pipe] {
            write_in_folder(&path, |file| file.write_all(b"whole")).unwrap();
            assert!(fs::symlink_metadata(&path).unwrap().is_file());
            assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        let folder = folder("device");
        let path = folder.join("null");
        symlink("/dev/null", &path).unwrap();
        write(&path, |file| file.write_all(b"nothing")).unwrap();
        assert!(fs::metadata(&path).unwrap().file_type().is_char_device());
        fs::remove_dir_all(folder).unwrap();
    }
}
