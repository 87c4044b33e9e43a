//! A file on its way: its beginning, which the next attempt continues, and the digest of that.

use crate::FetchError;
use crate::digest::Sha256;
use softdiff_engine::regular_file;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

/// `NAME.partial`, held by this process alone.
pub struct Partial {
    path: PathBuf,
    place: PathBuf,
    file: File,
    digest: Sha256,
    length: u64,
}

impl Partial {
    /// Opens what an earlier attempt left, or begins; more than `most` bytes are no beginning.
    pub fn open(place: &Path, most: u64) -> Result<Partial, FetchError> {
        let mut name = place.file_name().unwrap_or_default().to_os_string();
        name.push(".partial");
        let path = place.with_file_name(name);
        let fail = |source| FetchError::Io { action: "write", path: path.clone(), source };
        let file =
            regular_file::open_unlinked(OpenOptions::new().read(true).write(true).create(true), &path).map_err(fail)?;
        match file.try_lock() {
            Err(fs::TryLockError::WouldBlock) => return Err(FetchError::Busy { place: place.into() }),
            // A file system without locks; two processes would at worst spoil the sum.
            Err(fs::TryLockError::Error(_)) | Ok(()) => {}
        }
        let mut partial = Partial { path: path.clone(), place: place.into(), file, digest: Sha256::new(), length: 0 };
        let length = partial.file.metadata().map_err(fail)?.len();
        if length > most {
            partial.restart()?;
        } else {
            partial.digest.add_all(&partial.file).map_err(fail)?;
            partial.length = length;
        }
        Ok(partial)
    }

    /// How many bytes are there.
    pub fn len(&self) -> u64 {
        self.length
    }

    pub fn append(&mut self, bytes: &[u8]) -> Result<(), FetchError> {
        self.file.write_all(bytes).map_err(|source| self.failed("write", source))?;
        self.digest.add(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Forgets what is there.
    pub fn restart(&mut self) -> Result<(), FetchError> {
        let emptied = self.file.set_len(0).and_then(|()| self.file.rewind());
        emptied.map_err(|source| self.failed("write", source))?;
        self.digest = Sha256::new();
        self.length = 0;
        Ok(())
    }

    /// The SHA-256 of what is there.
    pub fn sum(&self) -> String {
        self.digest.clone().finish()
    }

    /// Removes it where it holds nothing.
    pub fn remove_if_empty(self) {
        if self.length == 0 {
            // An empty file is as good as none.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Gives it its name, for good.
    pub fn publish(self) -> Result<(), FetchError> {
        let Partial { path, place, file, .. } = self;
        let fail = |action, path: &Path| {
            let path = path.to_path_buf();
            move |source: io::Error| FetchError::Io { action, path, source }
        };
        file.sync_all().map_err(fail("write", &path))?;
        // Windows renames no open file.
        drop(file);
        fs::rename(&path, &place).map_err(fail("write", &place))?;
        match place.parent() {
            Some(folder) if cfg!(unix) => {
                File::open(folder).and_then(|folder| folder.sync_all()).map_err(fail("write", folder))
            }
            _ => Ok(()),
        }
    }

    fn failed(&self, action: &'static str, source: io::Error) -> FetchError {
        FetchError::Io { action, path: self.path.clone(), source }
    }
}
