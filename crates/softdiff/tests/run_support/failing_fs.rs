//! The disk, except that one call fails: which one, how, and whether all after it fail too, is the test's choice.

use softdiff::run::fs::{AtomicFs, Disk, Fs, FsFile};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub const EIO: i32 = 5;
pub const ENOSPC: i32 = 28;
pub const EFBIG: i32 = 27;

#[derive(Clone, Debug)]
pub struct FailingFs(Arc<Plan>);

#[derive(Debug)]
struct Plan {
    calls: AtomicUsize,
    fail_at: usize,
    errno: i32,
    forever: bool,
    free: Option<u64>,
}

impl FailingFs {
    /// Fails call number `fail_at`, counted from 0; with `forever` all later ones too, as a full disk does.
    pub fn new(fail_at: usize, errno: i32, forever: bool) -> FailingFs {
        FailingFs(Arc::new(Plan { calls: AtomicUsize::new(0), fail_at, errno, forever, free: None }))
    }

    /// Fails nothing, but claims that so many bytes are free.
    pub fn with_free_space(free: u64) -> FailingFs {
        let (calls, fail_at) = (AtomicUsize::new(0), usize::MAX);
        FailingFs(Arc::new(Plan { calls, fail_at, errno: 0, forever: false, free: Some(free) }))
    }

    pub fn calls(&self) -> usize {
        self.0.calls.load(Ordering::Relaxed)
    }

    fn call(&self) -> io::Result<()> {
        let call = self.0.calls.fetch_add(1, Ordering::Relaxed);
        if call == self.0.fail_at || self.0.forever && call > self.0.fail_at {
            return Err(io::Error::from_raw_os_error(self.0.errno));
        }
        Ok(())
    }
}

struct FailingFile {
    fs: FailingFs,
    file: Box<dyn FsFile>,
}

struct FailingRead {
    fs: FailingFs,
    file: Box<dyn Read>,
}

impl AtomicFs for FailingFs {
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        self.call()?;
        Ok(Box::new(FailingFile { fs: self.clone(), file: Disk.create_new(path)? }))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call().and_then(|()| Disk.rename(from, to))
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.call().and_then(|()| Disk.remove_file(path))
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.call().and_then(|()| Disk.sync_folder(path))
    }
}

impl Fs for FailingFs {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.call().and_then(|()| Disk.create_folder(path))
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        self.call()?;
        Ok(Box::new(FailingFile { fs: self.clone(), file: Disk.create(path)? }))
    }
    fn append(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        self.call()?;
        Ok(Box::new(FailingFile { fs: self.clone(), file: Disk.append(path)? }))
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        self.call()?;
        Ok(Box::new(FailingRead { fs: self.clone(), file: Disk.open(path)? }))
    }
    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        self.call().and_then(|()| Disk.truncate(path, length))
    }
    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.call().and_then(|()| Disk.remove_folder(path))
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.call().and_then(|()| Disk.list(path))
    }
    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.call()?;
        self.0.free.map_or_else(|| Disk.free_space(path), Ok)
    }
}

impl Write for FailingFile {
    /// A failed write leaves half of its bytes.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.fs.call() {
            Ok(()) => self.file.write_all(bytes).map(|()| bytes.len()),
            Err(error) => {
                self.file.write_all(&bytes[..bytes.len() / 2])?;
                Err(error)
            }
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl FsFile for FailingFile {
    fn sync(&mut self) -> io::Result<()> {
        self.fs.call().and_then(|()| self.file.sync())
    }
}

impl Read for FailingRead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fs.call().and_then(|()| self.file.read(buffer))
    }
}
