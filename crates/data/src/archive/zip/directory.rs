//! The central directory, one record per entry, and the local header each record points to.

use super::Rules;
use super::end::End;
use crate::archive::ArchiveError;
use crate::bytes::{Bytes, BytesError};
use crate::quote::quote;
use std::ops::Range;

const RECORD: u32 = 0x0201_4b50;
const RECORD_LENGTH: u64 = 46;
const LOCAL_HEADER: u32 = 0x0403_4b50;
const FLAG_ENCRYPTED: u16 = 1;
/// Sizes and CRC follow the data, and the local header holds zeros: what torch writes.
const FLAG_SIZES_FOLLOW: u16 = 1 << 3;
const ZIP64_EXTRA: u16 = 1;

/// One record of the central directory.
pub struct ZipRecord {
    pub name: String,
    pub crc: u32,
    pub method: ZipMethod,
    /// Where the local header begins.
    pub header: u64,
    /// The bytes in the archive.
    stored: u64,
    /// The bytes once unpacked.
    pub length: u64,
}

/// How an entry's bytes are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ZipMethod {
    Stored,
    Deflated,
}

impl ZipMethod {
    fn code(self) -> u16 {
        match self {
            ZipMethod::Stored => 0,
            ZipMethod::Deflated => 8,
        }
    }
}

/// Reads every record between the directory's start and its end.
pub fn read(bytes: &[u8], end: &End, rules: Rules) -> Result<Vec<ZipRecord>, ArchiveError> {
    if end.entries > rules.max_entries {
        return Err(ArchiveError::ZipTooManyEntries { count: end.entries, limit: rules.max_entries });
    }
    // Said before the loop, so that a lie about the count costs nothing.
    let needed = end.entries.saturating_mul(RECORD_LENGTH);
    if needed > end.directory_length {
        let (part, offset, left) = ("zip central directory", end.directory, end.directory_length);
        return Err(BytesError::Truncated { part, offset, needed, left }.into());
    }
    let directory_end = end.directory.saturating_add(end.directory_length);
    let upto = usize::try_from(directory_end).ok().and_then(|upto| bytes.get(..upto)).unwrap_or_default();
    let mut cursor = Bytes::at(upto, end.directory, "zip central directory")?;
    let records = (0..end.entries).map(|_| read_record(&mut cursor, rules)).collect::<Result<Vec<_>, _>>()?;
    if cursor.left() > 0 {
        let part = "central directory".into();
        let field = "length of all records";
        let found = cursor.offset().saturating_sub(end.directory);
        return Err(ArchiveError::ZipDisagrees { part, field, expected: end.directory_length, found });
    }
    Ok(records)
}

fn read_record(cursor: &mut Bytes, rules: Rules) -> Result<ZipRecord, ArchiveError> {
    let offset = cursor.offset();
    if cursor.u32()? != RECORD {
        return Err(ArchiveError::ZipSignature { part: "central directory record", offset });
    }
    cursor.take(4)?; // Versions made by and needed.
    let (flags, method) = (cursor.u16()?, cursor.u16()?);
    cursor.take(4)?; // Time and date.
    let crc = cursor.u32()?;
    let (stored, length) = (cursor.u32()?, cursor.u32()?);
    let (name_length, extra_length, comment_length) = (cursor.u16()?, cursor.u16()?, cursor.u16()?);
    cursor.take(8)?; // Volume and file attributes.
    let header = cursor.u32()?;
    let name = cursor.take(name_length.into())?;
    let name = std::str::from_utf8(name).map_err(|_| ArchiveError::ZipName { offset })?.to_string();
    let extra = cursor.take(extra_length.into())?;
    cursor.take(comment_length.into())?;

    if flags & FLAG_ENCRYPTED != 0 {
        return Err(ArchiveError::ZipEncrypted { name: quote(&name) });
    }
    let method = match method {
        0 => ZipMethod::Stored,
        8 if rules.deflated => ZipMethod::Deflated,
        _ if rules.deflated => return Err(ArchiveError::ZipMethod { name: quote(&name), method }),
        _ => return Err(ArchiveError::ZipCompressed { name: quote(&name), method }),
    };
    let [length, stored, header] = widen(extra, [length, stored, header])?;
    if method == ZipMethod::Stored && stored != length {
        return Err(disagrees(&name, "stored size", length, stored));
    }
    Ok(ZipRecord { name, crc, method, header, stored, length })
}

/// Saturated 32-bit fields are found, in this order, in the zip64 extra field.
fn widen(extra: &[u8], fields: [u32; 3]) -> Result<[u64; 3], ArchiveError> {
    let mut wide = zip64_extra(extra)?;
    let mut widened = [0; 3];
    for (to, from) in widened.iter_mut().zip(fields) {
        *to = if from == u32::MAX { wide.u64()? } else { from.into() };
    }
    Ok(widened)
}

fn zip64_extra(extra: &[u8]) -> Result<Bytes<'_>, ArchiveError> {
    let mut cursor = Bytes::new(extra, "zip extra field");
    while cursor.left() > 0 {
        let (id, length) = (cursor.u16()?, cursor.u16()?);
        let content = cursor.take(length.into())?;
        if id == ZIP64_EXTRA {
            return Ok(Bytes::new(content, "zip64 extra field"));
        }
    }
    Ok(Bytes::new(&[], "zip64 extra field"))
}

impl ZipRecord {
    /// Where the entry's bytes are, once its local header agrees with this record.
    pub fn locate(&self, bytes: &[u8]) -> Result<Range<usize>, ArchiveError> {
        let mut cursor = Bytes::at(bytes, self.header, "zip local header")?;
        if cursor.u32()? != LOCAL_HEADER {
            return Err(ArchiveError::ZipSignature { part: "local header", offset: self.header });
        }
        cursor.take(2)?; // Version needed.
        let (flags, method) = (cursor.u16()?, cursor.u16()?);
        cursor.take(4)?; // Time and date.
        let (crc, stored, length) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
        let (name_length, extra_length) = (cursor.u16()?, cursor.u16()?);
        if cursor.take(name_length.into())? != self.name.as_bytes() {
            return Err(ArchiveError::ZipSignature { part: "local header of the same name", offset: self.header });
        }
        cursor.take(extra_length.into())?;
        self.agrees("method in the local header", self.method.code().into(), method.into())?;
        if flags & FLAG_SIZES_FOLLOW == 0 {
            self.agrees("crc32 in the local header", self.crc.into(), crc.into())?;
            for (expected, size) in [(self.stored, stored), (self.length, length)] {
                if size != u32::MAX {
                    self.agrees("size in the local header", expected, size.into())?;
                }
            }
        }
        let start = cursor.offset() as usize;
        let length = cursor.take(self.stored)?.len();
        Ok(start..start.saturating_add(length))
    }

    fn agrees(&self, field: &'static str, expected: u64, found: u64) -> Result<(), ArchiveError> {
        if expected == found { Ok(()) } else { Err(disagrees(&self.name, field, expected, found)) }
    }
}

fn disagrees(name: &str, field: &'static str, expected: u64, found: u64) -> ArchiveError {
    ArchiveError::ZipDisagrees { part: format!("entry {}", quote(name)), field, expected, found }
}
