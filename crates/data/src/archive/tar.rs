//! A tar reader (POSIX ustar with pax headers, and GNU long names), over bytes already in memory.
//!
//! Invariant: every entry handed out lies inside the file and has a name of its own. Links and devices are listed, never
//! followed; nothing is unpacked to disk.

use super::ArchiveError;
use crate::bytes::BytesError;
use crate::quote::quote;
use std::collections::HashSet;
use std::ops::Range;

const BLOCK: usize = 512;
const MAGIC_AT: usize = 257;
/// The longest name, from a pax or GNU header.
const MAX_NAME: u64 = 1 << 16;

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
    let mut entries = Vec::new();
    let mut names = HashSet::new();
    let mut overrides = Overrides::default();
    let mut at = 0usize;
    let mut headers = 0u64;
    while let Some(block) = bytes.get(at..at.saturating_add(BLOCK)) {
        if block.iter().all(|&byte| byte == 0) {
            return Ok(entries);
        }
        headers += 1;
        if headers > max_entries.saturating_mul(2) || entries.len() as u64 >= max_entries {
            return Err(ArchiveError::TarTooManyEntries { limit: max_entries });
        }
        let header = TarHeader { block, offset: at as u64 };
        header.check()?;
        let kind = block.get(156).copied().unwrap_or(0);
        let has_bytes = !matches!(kind, b'1'..=b'6');
        let size = match (has_bytes, overrides.size.filter(|_| !matches!(kind, b'x' | b'g' | b'L' | b'K'))) {
            (false, _) => 0,
            (true, Some(size)) => size,
            (true, None) => header.number(124..136)?,
        };
        let data = locate(bytes, at + BLOCK, size)?;
        let content = bytes.get(data.clone()).unwrap_or_default();
        match kind {
            b'L' => overrides.name = Some(long_name(content, header.offset)?),
            b'x' => overrides.read_pax(content, header.offset)?,
            // Defaults for all entries, and GNU's long link targets: nothing in them is needed.
            b'g' | b'K' => {}
            _ => {
                let Overrides { name, .. } = std::mem::take(&mut overrides);
                let name = name.map_or_else(|| header.name(), Ok)?;
                let kind = match kind {
                    b'0' | 0 | b'7' if name.ends_with('/') => TarKind::Other,
                    b'0' | 0 | b'7' => TarKind::File,
                    b'1' | b'2' => TarKind::Link,
                    _ => TarKind::Other,
                };
                if kind != TarKind::Other && !names.insert(name.clone()) {
                    return Err(ArchiveError::TarDuplicate { name: quote(&name) });
                }
                entries.push(TarEntry { name, kind, data: data.clone() });
            }
        }
        at = data.end.next_multiple_of(BLOCK);
    }
    // Two zero blocks should end the archive; many writers leave them out, but a cut header is a cut file.
    match bytes.len().checked_sub(at) {
        None | Some(0) => Ok(entries),
        Some(left) => Err(cut("tar header", at, BLOCK as u64, left)),
    }
}

fn locate(bytes: &[u8], start: usize, size: u64) -> Result<Range<usize>, ArchiveError> {
    let left = bytes.len().saturating_sub(start);
    match usize::try_from(size) {
        Ok(size) if size <= left => Ok(start..start + size),
        _ => Err(cut("tar entry", start, size, left)),
    }
}

fn cut(part: &'static str, offset: usize, needed: u64, left: usize) -> ArchiveError {
    BytesError::Truncated { part, offset: offset as u64, needed, left: left as u64 }.into()
}

fn long_name(content: &[u8], offset: u64) -> Result<String, ArchiveError> {
    if content.len() as u64 > MAX_NAME {
        return Err(ArchiveError::TarHeader { offset, reason: "a name longer than 65536 bytes" });
    }
    text(content, offset)
}

/// Text up to the first zero byte.
fn text(field: &[u8], offset: u64) -> Result<String, ArchiveError> {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    let text = field.get(..end).unwrap_or_default();
    String::from_utf8(text.to_vec()).map_err(|_| ArchiveError::TarHeader { offset, reason: "a name that is not UTF-8" })
}

/// What extended headers say of the next entry.
#[derive(Default)]
struct Overrides {
    name: Option<String>,
    size: Option<u64>,
}

impl Overrides {
    /// Records `"<length> <key>=<value>\n"`.
    fn read_pax(&mut self, content: &[u8], offset: u64) -> Result<(), ArchiveError> {
        let damaged = |reason| ArchiveError::TarHeader { offset, reason };
        if content.len() as u64 > 2 * MAX_NAME {
            return Err(damaged("a pax header longer than 131072 bytes"));
        }
        let mut rest = std::str::from_utf8(content).map_err(|_| damaged("a pax header that is not UTF-8"))?;
        rest = rest.trim_end_matches('\0');
        while !rest.is_empty() {
            let record = rest.split_once(' ').and_then(|(length, _)| rest.get(..length.parse().ok()?));
            let record =
                record.filter(|record| record.ends_with('\n')).ok_or(damaged("a pax record without an end"))?;
            let field = record.split_once(' ').and_then(|(_, field)| field.trim_end_matches('\n').split_once('='));
            match field {
                Some(("path", name)) => self.name = Some(name.to_string()),
                Some(("size", size)) => {
                    self.size = Some(size.parse().map_err(|_| damaged("a pax size that is no number"))?);
                }
                Some(_) => {}
                None => return Err(damaged("a pax record without an equals sign")),
            }
            rest = rest.get(record.len()..).unwrap_or_default();
        }
        Ok(())
    }
}

struct TarHeader<'a> {
    block: &'a [u8],
    offset: u64,
}

impl TarHeader<'_> {
    fn damaged(&self, reason: &'static str) -> ArchiveError {
        ArchiveError::TarHeader { offset: self.offset, reason }
    }

    /// The sum of all bytes, with the checksum's own field as spaces.
    fn check(&self) -> Result<(), ArchiveError> {
        let stored = self.number(148..156)?;
        let sum: u64 = self
            .block
            .iter()
            .enumerate()
            .map(|(at, &byte)| if (148..156).contains(&at) { 32 } else { byte.into() })
            .sum();
        if sum == stored { Ok(()) } else { Err(self.damaged("wrong checksum")) }
    }

    /// Octal digits, or GNU's big-endian binary with the top bit set.
    fn number(&self, field: Range<usize>) -> Result<u64, ArchiveError> {
        let field = self.block.get(field).unwrap_or_default();
        if let Some((0x80, rest)) = field.split_first() {
            return rest
                .iter()
                .try_fold(0u64, |sum, &byte| Some(sum.checked_mul(256)? + u64::from(byte)))
                .ok_or_else(|| self.damaged("a number of more than 64 bits"));
        }
        let digits: Vec<u8> = field
            .iter()
            .copied()
            .skip_while(|&byte| byte == b' ')
            .take_while(|byte| !matches!(byte, 0 | b' '))
            .collect();
        digits.iter().try_fold(0u64, |sum, &digit| {
            if !(b'0'..=b'7').contains(&digit) {
                return Err(self.damaged("a number that is not octal"));
            }
            Ok(sum.saturating_mul(8).saturating_add(u64::from(digit - b'0')))
        })
    }

    fn name(&self) -> Result<String, ArchiveError> {
        let name = text(self.block.get(..100).unwrap_or_default(), self.offset)?;
        // Old GNU archives keep other things where ustar has the prefix.
        let ustar = self.block.get(MAGIC_AT..MAGIC_AT + 6) == Some(b"ustar\0");
        let prefix =
            if ustar { text(self.block.get(345..500).unwrap_or_default(), self.offset)? } else { String::new() };
        Ok(if prefix.is_empty() { name } else { format!("{prefix}/{name}") })
    }
}
