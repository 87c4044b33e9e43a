//! Bytes that several parts of the program read: in memory, or a file that the operating system maps into it.
#![allow(unsafe_code)]

use crate::memory::{self, NotEnoughMemory};
use crate::regular_file;
use memmap2::Mmap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

/// Shorter files are read, longer ones mapped.
const MAPPED_FROM: u64 = 64 << 20;

/// Bytes of a block.
const BLOCK: usize = 64 << 20;

/// A part of some bytes that are kept as long as anybody has a part of them. A clone copies nothing.
#[derive(Clone)]
pub struct SharedBytes {
    content: Arc<BytesContent>,
    range: Range<usize>,
}

enum BytesContent {
    Memory(Vec<u8>),
    Mapped(Mmap),
}

/// Why a file has no bytes to share.
#[derive(Debug, thiserror::Error)]
pub enum SharedBytesError {
    /// The operating system could not read it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// There is no room for it.
    #[error(transparent)]
    Memory(#[from] NotEnoughMemory),
}

impl SharedBytes {
    /// The content of a regular file. A long one is mapped: it takes address space, and of memory only what the system has to
    /// spare, so it may be longer than memory.
    ///
    /// The length of a mapped file must not shrink while it is used: reading beyond its end ends the process (SIGBUS). Files
    /// that are replaced by a rename, as all of this program's are, do no harm.
    pub fn open(path: &Path) -> Result<SharedBytes, SharedBytesError> {
        let mut file = regular_file::open(path)?;
        let length = file.metadata()?.len();
        if length >= MAPPED_FROM {
            return SharedBytes::map(&file);
        }
        let mut bytes = Vec::with_capacity(length as usize);
        // The length is only a promise; the file may grow.
        file.by_ref().take(MAPPED_FROM).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }

    /// The content of an open file, mapped.
    pub fn map(file: &File) -> Result<SharedBytes, SharedBytesError> {
        let length = file.metadata()?.len();
        if length == 0 {
            return Ok(Vec::new().into());
        }
        // SAFETY: the map is only read. Another process that writes to the file changes what is read, which no reader here
        // takes for checked twice; that it shortens the file is excluded by the documentation above.
        match unsafe { Mmap::map(file) } {
            Ok(map) => Ok(SharedBytes { range: 0..map.len(), content: Arc::new(BytesContent::Mapped(map)) }),
            Err(error) => Err(match memory::beyond_address_space(length) {
                Some(error) => error.into(),
                None => error.into(),
            }),
        }
    }

    /// A part of these bytes; none if it is not within them.
    pub fn slice(&self, range: Range<usize>) -> Option<SharedBytes> {
        self.get(range.clone())?;
        let start = self.range.start;
        Some(SharedBytes { content: self.content.clone(), range: start + range.start..start + range.end })
    }

    /// All of it in blocks of whole units, for one pass from beginning to end: of a mapped file only the block that was given out
    /// last need be resident.
    pub fn blocks(&self, unit: usize) -> impl Iterator<Item = &[u8]> {
        let block = (BLOCK / unit.max(1)).max(1) * unit.max(1);
        self.chunks(block).inspect(|_| self.release())
    }

    /// Lets the system take the pages of a mapped file back; they are read again when they are needed.
    pub fn release(&self) {
        #[cfg(unix)]
        if let BytesContent::Mapped(map) = &*self.content {
            let advice = memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: the map is shared and only read, so its pages come back from the file unchanged. A failure leaves them.
            let _ = unsafe { map.unchecked_advise_range(advice, self.range.start, self.range.len()) };
        }
    }

    /// Whether these are bytes of a mapped file.
    pub fn is_mapped(&self) -> bool {
        matches!(*self.content, BytesContent::Mapped(_))
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let all: &[u8] = match &*self.content {
            BytesContent::Memory(bytes) => bytes,
            BytesContent::Mapped(map) => map,
        };
        &all[self.range.clone()]
    }
}

impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> SharedBytes {
        SharedBytes { range: 0..bytes.len(), content: Arc::new(BytesContent::Memory(bytes)) }
    }
}

impl std::fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

impl PartialEq for SharedBytes {
    fn eq(&self, other: &SharedBytes) -> bool {
        **self == **other
    }
}

impl Eq for SharedBytes {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_file_and_its_parts_are_its_bytes() {
        let path = std::env::temp_dir().join(format!("softdiff-mapped-{}", std::process::id()));
        let file = File::create_new(&path).unwrap();
        file.set_len(MAPPED_FROM + 5).unwrap();
        let mapped = SharedBytes::open(&path).unwrap();
        assert!(mapped.is_mapped() && mapped.len() as u64 == MAPPED_FROM + 5);
        assert_eq!(mapped.blocks(3).map(<[u8]>::len).collect::<Vec<_>>(), [BLOCK / 3 * 3, 5 + BLOCK % 3]);
        assert!(mapped.blocks(3).all(|block| block.iter().all(|&byte| byte == 0)));
        std::fs::write(path.with_extension("small"), b"0123456789").unwrap();
        let small = SharedBytes::open(&path.with_extension("small")).unwrap();
        assert!(!small.is_mapped() && *small == *b"0123456789");
        let part = small.slice(2..8).unwrap();
        assert_eq!(*part.slice(1..3).unwrap(), *b"34");
        assert_eq!(
            (part.slice(0..6).as_deref(), part.slice(0..7), part.slice(6..6).map(|p| p.len())),
            (Some(&b"234567"[..]), None, Some(0))
        );
        std::fs::remove_file(path.with_extension("small")).unwrap();
        std::fs::remove_file(path).unwrap();
    }
}
