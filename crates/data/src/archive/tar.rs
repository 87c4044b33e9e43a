//! Tar archives (ustar, pax and GNU long names), over bytes already in memory; headers are read by the `tar` crate.
//!
//! Invariant: every entry handed out lies inside the file and has a name of its own. Links and devices are listed, never
//! followed; nothing is unpacked to disk.

use super::ArchiveError;
use crate::bytes::BytesError;
use crate::quote::quote;
use std::collections::HashSet;
use std::io::Cursor;
use std::ops::Range;
use tar::{Archive, Entry, EntryType};

const MAGIC_AT: usize = 257;
const BLOCK: usize = 512;
/// The longest name, from a pax or GNU header.
const MAX_NAME: usize = 1 << 16;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TarKind {
    /// Bytes.
    File,
    /// A hard or symbolic link.
    Link,
    /// A folder, device or anything else without bytes of its own.
    Other,
}

/// One entry: its name, what it is, and where its bytes lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TarEntry {
    /// The path as the archive has it.
    pub name: String,
    /// File, link or other.
    pub kind: TarKind,
    /// The bytes of a file.
    pub data: Range<usize>,
}

/// Whether these bytes begin like a tar archive.
pub fn recognise(bytes: &[u8]) -> bool {
    bytes.get(MAGIC_AT..MAGIC_AT + 5) == Some(b"ustar")
}

/// Reads every header; at most `max_entries` of them.
pub fn read(bytes: &[u8], max_entries: u64) -> Result<Vec<TarEntry>, ArchiveError> {
    let mut archive = Archive::new(Cursor::new(bytes));
    let mut entries: Vec<TarEntry> = Vec::new();
    let mut names = HashSet::new();
    // Where the next header should be.
    let mut next = 0;
    for entry in archive.entries_with_seek().map_err(|error| damaged(next, error))? {
        let entry = read_entry(bytes, entry.map_err(|error| damaged(next, error))?)?;
        next = entry.data.end.next_multiple_of(BLOCK);
        if entries.len() as u64 >= max_entries {
            return Err(ArchiveError::TarTooManyEntries { limit: max_entries });
        }
        if entry.kind != TarKind::Other && !names.insert(entry.name.clone()) {
            return Err(ArchiveError::TarDuplicate { name: quote(&entry.name) });
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn read_entry(bytes: &[u8], mut entry: Entry<Cursor<&[u8]>>) -> Result<TarEntry, ArchiveError> {
    let offset = entry.raw_header_position() as usize;
    if let Some(mut records) = entry.pax_extensions().map_err(|error| damaged(offset, error))? {
        // The crate passes over damaged records; a name lost that way would be another name.
        records.try_for_each(|record| record.map(|_| ())).map_err(|error| damaged(offset, error))?;
    }
    let name = entry.path_bytes();
    if name.len() > MAX_NAME {
        return Err(damaged(offset, format!("a name longer than {MAX_NAME} bytes")));
    }
    let name = std::str::from_utf8(&name).map_err(|_| damaged(offset, "a name that is not UTF-8"))?.to_string();
    let kind = match entry.header().entry_type() {
        EntryType::Regular | EntryType::Continuous if !name.ends_with('/') => TarKind::File,
        EntryType::Link | EntryType::Symlink => TarKind::Link,
        _ => TarKind::Other,
    };
    let (start, size) = (entry.raw_file_position(), entry.size());
    let data = usize::try_from(start).ok().and_then(|start| Some(start..start.checked_add(size.try_into().ok()?)?));
    let left = (bytes.len() as u64).saturating_sub(start);
    let cut = || BytesError::Truncated { part: "tar entry", offset: start, needed: size, left };
    let data = data.filter(|data| data.end <= bytes.len()).ok_or_else(cut)?;
    Ok(TarEntry { name, kind, data })
}

fn damaged(offset: usize, reason: impl ToString) -> ArchiveError {
    ArchiveError::TarHeader { offset: offset as u64, reason: reason.to_string() }
}
