//! Writing zip archives: stored entries, all below 4 GiB, the same bytes for the same content.

use crc32fast::Hasher;
use std::io::{self, Write};

/// Writes entries one after the other.
pub struct ZipWriter<'a, W> {
    out: &'a mut W,
    offset: u64,
    directory: Vec<u8>,
    count: u16,
}

/// 1 January 1980, the first date of zip: the time of writing would make equal data unequal files.
const DATE: u16 = 1 << 5 | 1;

impl<'a, W: Write> ZipWriter<'a, W> {
    /// An archive without entries so far.
    pub fn new(out: &'a mut W) -> Self {
        ZipWriter { out, offset: 0, directory: Vec::new(), count: 0 }
    }

    /// Adds an entry whose content is `parts`, one after the other.
    pub fn entry(&mut self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        let too_much = |what| move |_| io::Error::new(io::ErrorKind::FileTooLarge, what);
        let length: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let size = u32::try_from(length).map_err(too_much("more than 4 GiB in one entry of a zip"))?;
        let offset = u32::try_from(self.offset).map_err(too_much("more than 4 GiB in one zip"))?;
        let count = u32::from(self.count) + 1;
        self.count = u16::try_from(count).map_err(too_much("more than 65535 entries in one zip"))?;
        let mut hasher = Hasher::new();
        parts.iter().for_each(|part| hasher.update(part));
        let crc = hasher.finalize();
        // Version, flags, method, time, date, checksum, sizes, length of the name, no extra field.
        let mut common = Vec::new();
        common.extend([20u16, 0, 0, 0, DATE].iter().flat_map(|field| field.to_le_bytes()));
        common.extend([crc, size, size].iter().flat_map(|field| field.to_le_bytes()));
        common.extend([name.len() as u16, 0].iter().flat_map(|field| field.to_le_bytes()));
        let local = [&b"PK\x03\x04"[..], &common, name.as_bytes()].concat();
        self.out.write_all(&local)?;
        parts.iter().try_for_each(|part| self.out.write_all(part))?;
        self.offset += local.len() as u64 + length;
        self.directory
            .extend([&b"PK\x01\x02\x14\x00"[..], &common, &[0; 10], &offset.to_le_bytes(), name.as_bytes()].concat());
        Ok(())
    }

    /// Writes the directory.
    pub fn finish(self) -> io::Result<()> {
        let start = u32::try_from(self.offset).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        self.out.write_all(&self.directory)?;
        let count = self.count.to_le_bytes();
        let length = (self.directory.len() as u32).to_le_bytes();
        self.out
            .write_all(&[&b"PK\x05\x06\0\0\0\0"[..], &count, &count, &length, &start.to_le_bytes(), &[0; 2]].concat())
    }
}
