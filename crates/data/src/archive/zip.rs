//! A zip reader for stored and deflated entries (APPNOTE 6.3.10), over bytes already in memory.
//!
//! Invariant: every entry handed out lies inside the file, overlaps no other, and has the length and the CRC-32 of its
//! directory record. The central directory is the truth; local headers must agree with it where they speak.

mod directory;
mod end;
mod write;

pub use write::ZipWriter;

use super::ArchiveError;
use super::inflate::{self, Wrapping};
use crate::quote::quote;
use directory::{ZipMethod, ZipRecord};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// What an archive may contain.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The most entries.
    pub max_entries: u64,
    /// Whether deflated entries are read as well as stored ones.
    pub deflated: bool,
}

/// The directory of a zip file, checked, without the bytes it points into.
pub struct Index {
    entries: Vec<ZipEntry>,
    by_name: HashMap<String, usize>,
}

struct ZipEntry {
    name: String,
    crc: u32,
    method: ZipMethod,
    data: Range<usize>,
    length: u64,
}

impl Index {
    /// Reads and checks the directory; the entries' bytes are checked when they are read.
    pub fn open(bytes: &[u8], rules: Rules) -> Result<Self, ArchiveError> {
        let end = end::find(bytes)?;
        let records = directory::read(bytes, &end, rules)?;
        let mut index = Index { entries: Vec::new(), by_name: HashMap::new() };
        let mut spans = Vec::new();
        for (number, record) in records.into_iter().enumerate() {
            let data = record.locate(bytes)?;
            spans.push((record.header as usize, data.end, number));
            index.insert(number, record, data)?;
        }
        index.check_overlaps(spans, end.directory as usize)?;
        Ok(index)
    }

    fn insert(&mut self, number: usize, record: ZipRecord, data: Range<usize>) -> Result<(), ArchiveError> {
        if self.by_name.insert(record.name.clone(), number).is_some() {
            return Err(ArchiveError::ZipDuplicate { name: quote(&record.name) });
        }
        let ZipRecord { name, crc, method, length, .. } = record;
        self.entries.push(ZipEntry { name, crc, method, data, length });
        Ok(())
    }

    /// Sorted by their start, neighbours are the only ones that can touch.
    fn check_overlaps(&self, mut spans: Vec<(usize, usize, usize)>, directory: usize) -> Result<(), ArchiveError> {
        let name = |index: usize| self.entries.get(index).map(|entry| quote(&entry.name)).unwrap_or_default();
        spans.sort_unstable();
        for pair in spans.windows(2) {
            if let [(_, end, first), (start, _, second)] = *pair
                && end > start
            {
                return Err(ArchiveError::ZipOverlap { first: name(first), second: name(second) });
            }
        }
        match spans.last() {
            Some(&(_, end, last)) if end > directory => {
                Err(ArchiveError::ZipOverlap { first: name(last), second: "the central directory".into() })
            }
            _ => Ok(()),
        }
    }

    /// The names of all entries in the order of the directory.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// The bytes of entry `name` of the archive `bytes`, which has this index; at most `limit` of them once unpacked.
    pub fn read<'a>(&self, bytes: &'a [u8], name: &str, limit: u64) -> Result<Cow<'a, [u8]>, ArchiveError> {
        let entry = self.by_name.get(name).and_then(|&number| self.entries.get(number));
        let entry = entry.ok_or_else(|| ArchiveError::MissingEntry { name: quote(name) })?;
        let data = bytes.get(entry.data.clone()).unwrap_or_default();
        let data = match entry.method {
            ZipMethod::Stored if entry.length > limit => {
                return Err(ArchiveError::TooLarge { name: quote(name), bytes: entry.length, limit });
            }
            ZipMethod::Stored => Cow::Borrowed(data),
            ZipMethod::Deflated => {
                Cow::Owned(inflate::exactly(data, Wrapping::Raw, entry.length, limit, &quote(name))?)
            }
        };
        let computed = crc32fast::hash(&data);
        if computed != entry.crc {
            return Err(ArchiveError::ZipCrc { name: quote(name), stored: entry.crc, computed });
        }
        Ok(data)
    }
}

/// A zip file of stored entries.
pub struct Archive<'a> {
    bytes: &'a [u8],
    index: Index,
}

impl<'a> Archive<'a> {
    /// Reads and checks the directory; the entries' bytes are checked when they are read.
    pub fn open(bytes: &'a [u8], rules: Rules) -> Result<Self, ArchiveError> {
        Ok(Archive { bytes, index: Index::open(bytes, Rules { deflated: false, ..rules })? })
    }

    /// The names of all entries in the order of the directory.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.index.names()
    }

    /// The bytes of an entry, checked against its CRC-32.
    pub fn read(&self, name: &str) -> Result<&'a [u8], ArchiveError> {
        match self.index.read(self.bytes, name, u64::MAX)? {
            Cow::Borrowed(data) => Ok(data),
            Cow::Owned(_) => Err(ArchiveError::ZipCompressed { name: quote(name), method: 8 }),
        }
    }
}
