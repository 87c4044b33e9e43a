//! A zip reader for stored entries (APPNOTE 6.3.10), over bytes already in memory.
//!
//! Invariant: every entry handed out lies inside the file, overlaps no other, and has the CRC-32 of its directory record.
//! The central directory is the truth; local headers must agree with it where they speak.

mod directory;
mod end;

use super::ImportError;
use super::error::shown;
use crate::crc32::crc32;
use directory::Record;
use std::collections::HashMap;
use std::ops::Range;

/// The most entries an archive may have: some ten times those of a full NCSN++ checkpoint.
pub const MAX_ENTRIES: u64 = 1 << 16;

/// The directory of a zip file and the bytes it points into.
pub struct Archive<'a> {
    bytes: &'a [u8],
    entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
}

struct Entry {
    name: String,
    crc: u32,
    data: Range<usize>,
}

impl<'a> Archive<'a> {
    /// Reads and checks the directory; the entries' bytes are checked when they are read.
    pub fn open(bytes: &'a [u8]) -> Result<Self, ImportError> {
        let end = end::find(bytes)?;
        let records = directory::read(bytes, &end)?;
        let mut archive = Archive { bytes, entries: Vec::new(), by_name: HashMap::new() };
        let mut spans = Vec::new();
        for (index, record) in records.into_iter().enumerate() {
            let data = record.locate(bytes)?;
            spans.push((record.header as usize, data.end, index));
            archive.insert(index, record, data)?;
        }
        archive.check_overlaps(spans, end.directory as usize)?;
        Ok(archive)
    }

    fn insert(&mut self, index: usize, record: Record, data: Range<usize>) -> Result<(), ImportError> {
        if self.by_name.insert(record.name.clone(), index).is_some() {
            return Err(ImportError::ZipDuplicate { name: shown(&record.name) });
        }
        self.entries.push(Entry { name: record.name, crc: record.crc, data });
        Ok(())
    }

    /// Sorted by their start, neighbours are the only ones that can touch.
    fn check_overlaps(&self, mut spans: Vec<(usize, usize, usize)>, directory: usize) -> Result<(), ImportError> {
        let name = |index: usize| self.entries.get(index).map(|entry| shown(&entry.name)).unwrap_or_default();
        spans.sort_unstable();
        for pair in spans.windows(2) {
            if let [(_, end, first), (start, _, second)] = *pair
                && end > start
            {
                return Err(ImportError::ZipOverlap { first: name(first), second: name(second) });
            }
        }
        match spans.last() {
            Some(&(_, end, last)) if end > directory => {
                Err(ImportError::ZipOverlap { first: name(last), second: "the central directory".into() })
            }
            _ => Ok(()),
        }
    }

    /// The names of all entries in the order of the directory.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// The bytes of an entry, checked against its CRC-32.
    pub fn read(&self, name: &str) -> Result<&'a [u8], ImportError> {
        let entry = self.by_name.get(name).and_then(|&index| self.entries.get(index));
        let entry = entry.ok_or_else(|| ImportError::MissingEntry { name: shown(name) })?;
        let data = self.bytes.get(entry.data.clone()).unwrap_or_default();
        let computed = crc32(data);
        if computed != entry.crc {
            return Err(ImportError::ZipCrc { name: shown(name), stored: entry.crc, computed });
        }
        Ok(data)
    }
}
