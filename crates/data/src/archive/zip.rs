//! Zip archives of stored and deflated entries, over bytes already in memory; the directory is read by the `zip` crate.
//!
//! Invariant: every entry handed out lies inside the file, overlaps no other, agrees with its local header, and has the
//! length and the CRC-32 of its directory record.

mod write;

pub use write::StoredZip;

use super::ArchiveError;
use super::inflate::{self, Wrapping};
use crate::quote::quote;
use softdiff_engine::shared_bytes::SharedBytes;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{Cursor, Read};
use std::ops::Range;
use zip::read::{ArchiveOffset, Config, ZipFile};
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

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
    deflated: bool,
    data: Range<usize>,
    length: u64,
}

impl Index {
    /// Reads and checks the directory; the entries' bytes are checked when they are read.
    pub fn open(bytes: &[u8], rules: Rules) -> Result<Self, ArchiveError> {
        // No search for an archive behind other bytes: its offsets would be ambiguous.
        let config = Config { archive_offset: ArchiveOffset::Known(0) };
        let mut archive = ZipArchive::with_config(config, Cursor::new(bytes)).map_err(not_zip)?;
        let (count, limit) = (archive.len() as u64, rules.max_entries);
        if count > limit {
            return Err(ArchiveError::ZipTooManyEntries { count, limit });
        }
        if archive.has_duplicate_names() {
            return Err(ArchiveError::ZipDuplicate);
        }
        let mut entries = Vec::with_capacity(archive.len());
        for number in 0..archive.len() {
            entries.push(ZipEntry::check(&archive.by_index_raw(number).map_err(damaged)?, bytes, rules)?);
        }
        if archive.has_overlapping_entries().map_err(damaged)? {
            return Err(ArchiveError::ZipOverlap);
        }
        archive.validate_header_consistency().map_err(damaged)?;
        let by_name = entries.iter().map(|entry| entry.name.clone()).zip(0..).collect();
        Ok(Index { entries, by_name })
    }

    /// The names of all entries in the order of the directory.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// The bytes of entry `name` of the archive `bytes`, which has this index; at most `limit` of them once unpacked.
    pub fn read<'a>(&self, bytes: &'a [u8], name: &str, limit: u64) -> Result<Cow<'a, [u8]>, ArchiveError> {
        let entry = self.by_name.get(name).and_then(|&number| self.entries.get(number));
        let entry = entry.ok_or_else(|| ArchiveError::MissingEntry { name: quote(name) })?;
        if entry.length > limit {
            return Err(ArchiveError::TooLarge { name: quote(name), bytes: entry.length, limit });
        }
        let mut data = Cow::Borrowed(bytes.get(entry.data.clone()).unwrap_or_default());
        if entry.deflated {
            data = inflate::exactly(&data, Wrapping::Raw, entry.length, limit, &quote(name))?.into();
        }
        let computed = crc32fast::hash(&data);
        if computed != entry.crc {
            return Err(ArchiveError::ZipCrc { name: quote(name), stored: entry.crc, computed });
        }
        Ok(data)
    }
}

impl Index {
    /// The same as a part of `bytes` where the entry is stored: at most `limit` bytes, of a stored one any number.
    pub fn shared(&self, bytes: &SharedBytes, name: &str, limit: u64) -> Result<SharedBytes, ArchiveError> {
        let entry = self.by_name.get(name).and_then(|&number| self.entries.get(number));
        let Some(entry) = entry.filter(|entry| !entry.deflated) else {
            return Ok(self.read(bytes, name, limit)?.into_owned().into());
        };
        let stored = bytes.slice(entry.data.clone()).unwrap_or_else(|| Vec::new().into());
        let mut hasher = crc32fast::Hasher::new();
        stored.blocks(1).for_each(|block| hasher.update(block));
        match hasher.finalize() {
            computed if computed == entry.crc => Ok(stored),
            computed => Err(ArchiveError::ZipCrc { name: quote(name), stored: entry.crc, computed }),
        }
    }
}

impl ZipEntry {
    /// The entry as its directory record describes it, if `rules` allow it and it lies inside the file.
    fn check(entry: &ZipFile<impl Read>, bytes: &[u8], rules: Rules) -> Result<ZipEntry, ArchiveError> {
        let name = std::str::from_utf8(entry.name_raw());
        let name = name.map_err(|_| ArchiveError::ZipName { offset: entry.central_header_start() })?.to_string();
        if entry.encrypted() {
            return Err(ArchiveError::ZipEncrypted { name: quote(&name) });
        }
        let (stored, length) = (entry.compressed_size(), entry.size());
        let deflated = match entry.compression() {
            CompressionMethod::STORE if stored != length => {
                return Err(ArchiveError::ZipDamaged {
                    reason: format!("entry {}: stored size is {stored}, expected {length}", quote(&name)),
                });
            }
            CompressionMethod::STORE => false,
            CompressionMethod::DEFLATE if rules.deflated => true,
            method if rules.deflated => {
                return Err(ArchiveError::ZipMethod { name: quote(&name), method: method.to_string() });
            }
            method => return Err(ArchiveError::ZipCompressed { name: quote(&name), method: method.to_string() }),
        };
        let start = entry.data_start().and_then(|start| usize::try_from(start).ok());
        let end = start.and_then(|start| start.checked_add(usize::try_from(stored).ok()?));
        let data = start.zip(end).map(|(start, end)| start..end).filter(|data| bytes.get(data.clone()).is_some());
        let beyond = || ArchiveError::ZipDamaged { reason: format!("entry {} ends beyond the file", quote(&name)) };
        let data = data.ok_or_else(beyond)?;
        Ok(ZipEntry { crc: entry.crc32(), deflated, data, length, name })
    }
}

fn not_zip(error: ZipError) -> ArchiveError {
    ArchiveError::NotZip { reason: reason(error) }
}

fn damaged(error: ZipError) -> ArchiveError {
    ArchiveError::ZipDamaged { reason: reason(error) }
}

fn reason(error: ZipError) -> String {
    match error {
        ZipError::InvalidArchive(reason) => reason.trim_start_matches("header inconsistency detected: ").into(),
        error => error.to_string(),
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
            Cow::Owned(_) => unreachable!("an index without deflated entries"),
        }
    }
}
