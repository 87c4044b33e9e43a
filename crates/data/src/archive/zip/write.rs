//! Writing zip archives: stored entries, the same bytes for the same content on every system.

use std::io::{self, Write};
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, DateTime, System};

/// Writes entries one after the other, without going back: sizes and checksums follow each entry.
pub struct StoredZip<W: Write>(zip::ZipWriter<StreamWriter<W>>);

impl<W: Write> StoredZip<W> {
    /// An archive without entries so far.
    pub fn new(out: W) -> Self {
        StoredZip(zip::ZipWriter::new_stream(out))
    }

    /// Adds an entry whose content is `parts`, one after the other.
    pub fn entry(&mut self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        self.begin(name, parts.iter().map(|part| part.len() as u64).sum())?;
        parts.iter().try_for_each(|part| self.append(part))
    }

    /// Adds an entry of `length` bytes, which are to be appended.
    pub fn begin(&mut self, name: &str, length: u64) -> io::Result<()> {
        // The time of writing, or the system's name, would make equal data unequal files.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(DateTime::default())
            .system(System::Unix)
            .large_file(length >= zip::ZIP64_BYTES_THR);
        Ok(self.0.start_file(name, options)?)
    }

    /// Adds bytes to the entry that was begun last.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    /// Writes the directory.
    pub fn finish(self) -> io::Result<()> {
        self.0.finish()?;
        Ok(())
    }
}
