//! Unpacking of pages, within limits that are checked before anything is allocated.

use super::{FileError, damaged, unsupported};
use crate::archive::inflate::{self, Wrapping};
use crate::archive::{ArchiveError, MAX_RATIO, RATIO_FREE_BYTES};
use std::io::Read;

/// Pages usually have 1 MiB; those of images can be larger.
const MAX_PAGE: u64 = 256 << 20;

/// Unpacks a page of `length` bytes; `None` when it is not packed. Takes what it needs from `budget`.
pub fn unpack(codec: i64, packed: &[u8], length: u64, budget: &mut u64) -> Result<Option<Vec<u8>>, FileError> {
    const NAME: &str = "a Parquet page";
    if codec == 0 {
        return if packed.len() as u64 == length {
            Ok(None)
        } else {
            Err(damaged("a page longer or shorter than it says"))
        };
    }
    if length > MAX_PAGE || length > *budget {
        return Err(ArchiveError::TooLarge { name: NAME.into(), bytes: length, limit: MAX_PAGE.min(*budget) }.into());
    }
    *budget -= length;
    let stored = packed.len() as u64;
    if length > RATIO_FREE_BYTES && length > stored.saturating_mul(MAX_RATIO) {
        return Err(ArchiveError::Ratio { name: NAME.into(), stored, bytes: length, limit: MAX_RATIO }.into());
    }
    match codec {
        1 => snappy(packed, length).map(Some),
        2 => Ok(Some(inflate::exactly(packed, Wrapping::Gzip, length, MAX_PAGE, NAME)?)),
        6 => zstandard(packed, length).map(Some),
        3 => Err(unsupported("LZO compression: write the file with Snappy or Zstandard")),
        4 => Err(unsupported("Brotli compression: write the file with Snappy or Zstandard")),
        5 | 7 => Err(unsupported("LZ4 compression: write the file with Snappy or Zstandard")),
        _ => Err(damaged(format!("compression number {codec}"))),
    }
}

fn snappy(packed: &[u8], length: u64) -> Result<Vec<u8>, FileError> {
    let broken = |error: snap::Error| damaged(format!("a Snappy page that does not unpack: {error}"));
    // The page says its own length once more; the decoder allocates that much.
    let claimed = snap::raw::decompress_len(packed).map_err(broken)? as u64;
    if claimed != length {
        return Err(damaged(format!("a Snappy page of {claimed} bytes, expected {length}")));
    }
    snap::raw::Decoder::new().decompress_vec(packed).map_err(broken)
}

fn zstandard(packed: &[u8], length: u64) -> Result<Vec<u8>, FileError> {
    let broken = || damaged("a Zstandard page that does not unpack");
    let decoder = ruzstd::decoding::StreamingDecoder::new(packed).map_err(|_| broken())?;
    let mut out = Vec::with_capacity(length as usize);
    decoder.take(length + 1).read_to_end(&mut out).map_err(|_| broken())?;
    if out.len() as u64 == length { Ok(out) } else { Err(broken()) }
}

#[cfg(test)]
mod tests {
    use super::snappy;

    #[test]
    fn literals_and_overlapping_copies_unpack() {
        // Literal "ab", then a copy of 6 bytes from 2 back.
        assert_eq!(snappy(&[8, 1 << 2, b'a', b'b', 2 | 5 << 2, 2, 0], 8).unwrap(), b"abababab");
    }

    #[test]
    fn snappy_pages_that_lie_are_refused() {
        assert!(snappy(&[8, 1 << 2, b'a', b'b'], 8).is_err());
        assert!(snappy(&[8, 2 | 5 << 2, 2, 0], 8).is_err());
        assert!(snappy(&[3, 1 << 2, b'a', b'b', 2 | 5 << 2, 2, 0], 3).is_err());
        assert!(snappy(&[4, 63 << 2, 255, 255, 255, 255], 4).is_err());
        assert!(snappy(&[2, 1 << 2, b'a', b'b'], 3).is_err());
        assert!(snappy(&[], 0).is_err());
    }
}
