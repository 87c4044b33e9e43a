//! Unpacking of pages, within limits that are checked before anything is allocated.

use super::{FileError, damaged, snappy, unsupported};
use crate::archive::inflate::{self, Wrapping};
use crate::archive::{ArchiveError, MAX_RATIO, RATIO_FREE_BYTES};
use std::io::Read;

/// Pages usually have 1 MiB; those of pictures can be larger.
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
        1 => snappy::unpack(packed, length as usize).map(Some),
        2 => Ok(Some(inflate::exactly(packed, Wrapping::Gzip, length, MAX_PAGE, NAME)?)),
        6 => zstandard(packed, length).map(Some),
        3 => Err(unsupported("LZO compression: write the file with Snappy or Zstandard")),
        4 => Err(unsupported("Brotli compression: write the file with Snappy or Zstandard")),
        5 | 7 => Err(unsupported("LZ4 compression: write the file with Snappy or Zstandard")),
        _ => Err(damaged(format!("compression number {codec}"))),
    }
}

fn zstandard(packed: &[u8], length: u64) -> Result<Vec<u8>, FileError> {
    let broken = || damaged("a Zstandard page that does not unpack");
    let decoder = ruzstd::decoding::StreamingDecoder::new(packed).map_err(|_| broken())?;
    let mut out = Vec::with_capacity(length as usize);
    decoder.take(length + 1).read_to_end(&mut out).map_err(|_| broken())?;
    if out.len() as u64 == length { Ok(out) } else { Err(broken()) }
}
