//! Deflated bytes, unpacked within limits: raw (zip), gzip (several members as one) and zlib.

use super::{ArchiveError, MAX_RATIO, RATIO_FREE_BYTES};
use flate2::bufread::{DeflateDecoder, MultiGzDecoder};
use softdiff_engine::memory::{self, NotEnoughMemory};
use std::io::Read;

/// What is around the deflated bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrapping {
    /// Nothing, as in zip.
    Raw,
    /// The header and checksum of gzip.
    Gzip,
}

/// Bytes between two looks at the ratio.
const CHUNK: u64 = 1 << 16;
/// An honest file may begin with a long run of zeros.
const SLACK: u64 = 16 << 20;

/// The first two bytes of a gzip file.
pub const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

/// Unpacks bytes whose length is known: more or less of them is an error.
pub fn exactly(
    packed: &[u8],
    wrapping: Wrapping,
    length: u64,
    limit: u64,
    name: &str,
) -> Result<Vec<u8>, ArchiveError> {
    if length > limit {
        return Err(ArchiveError::TooLarge { name: name.into(), bytes: length, limit });
    }
    check_ratio(packed, length, name)?;
    require(length, name)?;
    let mut unpacked = Vec::new();
    let reserved = usize::try_from(length).ok().and_then(|length| unpacked.try_reserve_exact(length).ok());
    reserved.ok_or_else(|| ArchiveError::TooLarge { name: name.into(), bytes: length, limit })?;
    let most = length.saturating_add(1);
    let read = match wrapping {
        Wrapping::Raw => DeflateDecoder::new(packed).take(most).read_to_end(&mut unpacked),
        Wrapping::Gzip => MultiGzDecoder::new(packed).take(most).read_to_end(&mut unpacked),
    };
    read.map_err(|_| ArchiveError::Deflate { name: name.into() })?;
    if unpacked.len() as u64 != length {
        // One byte more was asked for, so "longer" is known but not by how much.
        return Err(ArchiveError::Length { name: name.into(), expected: length, found: unpacked.len() as u64 });
    }
    Ok(unpacked)
}

/// Unpacks a gzip file of unknown length, up to `limit` and the ratio. The ratio is watched all the way, so that a bomb is
/// found when it begins to expand and not when it has.
pub fn gzip(packed: &[u8], limit: u64, name: &str) -> Result<Vec<u8>, ArchiveError> {
    let mut decoder = MultiGzDecoder::new(packed);
    let mut unpacked = Vec::new();
    loop {
        let before = unpacked.len();
        if unpacked.capacity() - before < CHUNK as usize {
            // Half as much again each time: grown in place where it can be, and never beyond what there is.
            let more = before / 2 + CHUNK as usize;
            require(more as u64, name)?;
            let bytes = (before + more) as u64;
            unpacked.try_reserve_exact(more).map_err(|_| ArchiveError::TooLarge { name: name.into(), bytes, limit })?;
        }
        let read = decoder.by_ref().take(CHUNK).read_to_end(&mut unpacked);
        read.map_err(|_| ArchiveError::Deflate { name: name.into() })?;
        let bytes = unpacked.len() as u64;
        if bytes > limit {
            return Err(ArchiveError::TooLarge { name: name.into(), bytes, limit });
        }
        let stored = (packed.len() - decoder.get_ref().len()) as u64;
        if bytes > stored.saturating_mul(MAX_RATIO).saturating_add(SLACK) {
            return Err(ArchiveError::Ratio { name: name.into(), stored, bytes, limit: MAX_RATIO });
        }
        if unpacked.len() == before {
            check_ratio(packed, bytes, name)?;
            return Ok(unpacked);
        }
    }
}

/// Refuses to unpack what does not fit into memory.
fn require(bytes: u64, name: &str) -> Result<(), NotEnoughMemory> {
    memory::require(bytes, format!("unpacking {name}"), "unpack the file to disk, and give that")
}

fn check_ratio(packed: &[u8], bytes: u64, name: &str) -> Result<(), ArchiveError> {
    let stored = packed.len() as u64;
    if bytes > RATIO_FREE_BYTES && bytes > stored.saturating_mul(MAX_RATIO) {
        return Err(ArchiveError::Ratio { name: name.into(), stored, bytes, limit: MAX_RATIO });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder};
    use std::io::Write;

    fn deflated(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn gzipped(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn what_was_packed_comes_back() {
        let bytes: Vec<u8> = (0..5000u32).map(|i| ((i * i) >> 3) as u8).collect();
        assert_eq!(exactly(&deflated(&bytes), Wrapping::Raw, 5000, 5000, "x").unwrap(), bytes);
        let twice = [gzipped(&bytes), gzipped(&bytes)].concat();
        assert_eq!(gzip(&twice, 1 << 20, "x").unwrap(), [&bytes[..], &bytes[..]].concat());
    }

    #[test]
    fn lengths_limits_ratios_and_cuts_are_refused() {
        let zeros = deflated(&vec![0; 4 << 20]);
        let kind = |result: Result<Vec<u8>, ArchiveError>| format!("{:?}", result.unwrap_err());
        assert!(kind(exactly(&zeros, Wrapping::Raw, 4 << 20, 64 << 20, "x")).starts_with("Ratio"));
        assert!(kind(exactly(&zeros, Wrapping::Raw, 1 << 19, 64 << 20, "x")).starts_with("Length"));
        assert!(kind(exactly(&zeros, Wrapping::Raw, u64::MAX, 64 << 20, "x")).starts_with("TooLarge"));
        let zeros = gzipped(&vec![0; 64 << 20]);
        let Err(ArchiveError::Ratio { bytes, .. }) = gzip(&zeros, 1 << 30, "x") else { panic!() };
        assert!(bytes < 24 << 20, "found late, after {bytes} bytes");
        assert!(kind(gzip(&gzipped(&vec![0; 4 << 20]), 64 << 20, "x")).starts_with("Ratio"));
        assert!(kind(gzip(&zeros, 1 << 19, "x")).starts_with("TooLarge"));
        let packed = deflated(b"hello hello hello");
        assert!(kind(exactly(&packed, Wrapping::Raw, 18, 100, "x")).starts_with("Length"));
        assert!(kind(exactly(&packed[..packed.len() - 2], Wrapping::Raw, 17, 100, "x")).starts_with("Deflate"));
        let packed = gzipped(b"hello hello hello");
        assert!(kind(gzip(&packed[..packed.len() - 2], 100, "x")).starts_with("Deflate"));
    }
}
