//! The records at the end of a zip file, which say where the directory is.

use crate::archive::ArchiveError;
use crate::bytes::Bytes;

const END: u32 = 0x0605_4b50;
const END_LENGTH: usize = 22;
const LONGEST_COMMENT: usize = u16::MAX as usize;
const ZIP64_LOCATOR: u32 = 0x0706_4b50;
const ZIP64_LOCATOR_LENGTH: u64 = 20;
const ZIP64_END: u32 = 0x0606_4b50;
/// The zip64 record's own length field does not count its signature and itself.
const ZIP64_UNCOUNTED: u64 = 12;

/// Where the central directory lies and how many entries it has.
#[derive(Clone, Copy)]
pub struct End {
    pub entries: u64,
    pub directory: u64,
    pub directory_length: u64,
}

/// Finds the end record, prefers its zip64 form, and checks that the directory ends where the end records begin.
pub fn find(bytes: &[u8]) -> Result<End, ArchiveError> {
    let at = find_signature(bytes)?;
    let short = read_short(bytes, at)?;
    let (end, records) = match zip64_locator(bytes, at)? {
        Some(located) => (read_zip64(bytes, located, at - ZIP64_LOCATOR_LENGTH, &short)?, located),
        None => (short, at),
    };
    let directory_end = end.directory.checked_add(end.directory_length);
    if directory_end != Some(records) {
        let found = directory_end.unwrap_or(u64::MAX);
        return Err(disagrees("end record", "end of the central directory", records, found));
    }
    Ok(end)
}

/// The last signature whose comment reaches exactly to the end of the file.
fn find_signature(bytes: &[u8]) -> Result<u64, ArchiveError> {
    let first = bytes.len().saturating_sub(END_LENGTH + LONGEST_COMMENT);
    let tail = bytes.get(first..).unwrap_or_default();
    let ends_the_file = |window: &[u8], start: usize| {
        window.starts_with(&END.to_le_bytes())
            && window.last_chunk().is_some_and(|&comment: &[u8; 2]| {
                start + END_LENGTH + usize::from(u16::from_le_bytes(comment)) == tail.len()
            })
    };
    let found = tail.windows(END_LENGTH).enumerate().rev().find(|(start, window)| ends_the_file(window, *start));
    match found {
        Some((start, _)) => Ok((first + start) as u64),
        None => Err(ArchiveError::NotZip { searched: tail.len() as u64 }),
    }
}

fn read_short(bytes: &[u8], at: u64) -> Result<End, ArchiveError> {
    let mut record = Bytes::at(bytes, at + 4, "zip end record")?;
    let (disk, directory_disk) = (record.u16()?, record.u16()?);
    let (here, entries) = (record.u16()?, record.u16()?);
    one_volume("end record", disk.into(), directory_disk.into(), here.into(), entries.into())?;
    let (directory_length, directory) = (record.u32()?.into(), record.u32()?.into());
    Ok(End { entries: entries.into(), directory, directory_length })
}

/// The offset of the zip64 end record, when a locator stands before the end record.
fn zip64_locator(bytes: &[u8], at: u64) -> Result<Option<u64>, ArchiveError> {
    let Some(start) = at.checked_sub(ZIP64_LOCATOR_LENGTH) else { return Ok(None) };
    let mut locator = Bytes::at(bytes, start, "zip64 locator")?;
    if locator.u32()? != ZIP64_LOCATOR {
        return Ok(None);
    }
    let disk = locator.u32()?;
    let record = locator.u64()?;
    let disks = locator.u32()?;
    if disk != 0 || disks > 1 {
        return Err(disagrees("zip64 locator", "number of volumes", 1, disk.max(disks).into()));
    }
    Ok(Some(record))
}

fn read_zip64(bytes: &[u8], at: u64, locator: u64, short: &End) -> Result<End, ArchiveError> {
    const PART: &str = "zip64 end record";
    let mut record = Bytes::at(bytes, at, PART)?;
    if record.u32()? != ZIP64_END {
        return Err(ArchiveError::ZipSignature { part: PART, offset: at });
    }
    let length = record.u64()?;
    let record_end = at.checked_add(ZIP64_UNCOUNTED).and_then(|start| start.checked_add(length));
    if record_end != Some(locator) {
        return Err(disagrees(PART, "end of the record", locator, record_end.unwrap_or(u64::MAX)));
    }
    record.take(4)?; // Versions made by and needed.
    let (disk, directory_disk) = (record.u32()?, record.u32()?);
    let (here, entries) = (record.u64()?, record.u64()?);
    one_volume(PART, disk.into(), directory_disk.into(), here, entries)?;
    let (directory_length, directory) = (record.u64()?, record.u64()?);
    // A field of the short record either says the same or is saturated.
    for (field, wide, narrow, saturated) in [
        ("number of entries", entries, short.entries, u64::from(u16::MAX)),
        ("length of the central directory", directory_length, short.directory_length, u64::from(u32::MAX)),
        ("offset of the central directory", directory, short.directory, u64::from(u32::MAX)),
    ] {
        if narrow != saturated && narrow != wide {
            return Err(disagrees(PART, field, narrow, wide));
        }
    }
    Ok(End { entries, directory, directory_length })
}

fn one_volume(part: &str, disk: u64, directory_disk: u64, here: u64, entries: u64) -> Result<(), ArchiveError> {
    if disk != 0 || directory_disk != 0 {
        return Err(disagrees(part, "volume number", 0, disk.max(directory_disk)));
    }
    if here != entries {
        return Err(disagrees(part, "number of entries in this volume", entries, here));
    }
    Ok(())
}

fn disagrees(part: &str, field: &'static str, expected: u64, found: u64) -> ArchiveError {
    ArchiveError::ZipDisagrees { part: part.into(), field, expected, found }
}
