//! Why an archive was refused: each message names the entry and what was expected of it.

use crate::bytes::BytesError;
use softdiff_engine::memory::NotEnoughMemory;
use thiserror::Error;

/// An archive, or an entry of one, that cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The fields are named as the messages use them.
pub enum ArchiveError {
    /// A part of the archive ends too soon.
    #[error(transparent)]
    Bytes(#[from] BytesError),
    /// What it unpacks into does not fit into memory.
    #[error(transparent)]
    Memory(#[from] NotEnoughMemory),
    /// There is no zip archive in this file, or its end or directory is missing.
    #[error("not a zip archive, or an incomplete one ({reason})")]
    NotZip { reason: String },
    /// Parts of the archive contradict each other.
    #[error("zip: {reason}")]
    ZipDamaged { reason: String },
    /// More entries than the reader accepts.
    #[error("zip: {count} entries, more than the limit of {limit}")]
    ZipTooManyEntries { count: u64, limit: u64 },
    /// Two entries have one name.
    #[error("zip: two entries have the same name")]
    ZipDuplicate,
    /// Two entries, or an entry and the directory, share bytes.
    #[error("zip: two entries, or an entry and the directory, overlap")]
    ZipOverlap,
    /// An entry is compressed.
    #[error("zip: entry {name} is compressed ({method}), expected stored")]
    ZipCompressed { name: String, method: String },
    /// An entry is encrypted.
    #[error("zip: entry {name} is encrypted, expected plain bytes")]
    ZipEncrypted { name: String },
    /// The name of an entry is not text.
    #[error("zip: the entry name at offset {offset} is not UTF-8")]
    ZipName { offset: u64 },
    /// The bytes of an entry are not those that were written.
    #[error("zip: entry {name} is damaged: crc32 {computed:08x}, expected {stored:08x}")]
    ZipCrc { name: String, stored: u32, computed: u32 },
    /// An entry is missing.
    #[error("the archive has no entry {name}")]
    MissingEntry { name: String },
    /// An entry is compressed in a way that is not read.
    #[error("zip: entry {name} is compressed by {method}, expected stored or deflated")]
    ZipMethod { name: String, method: String },
    /// Two entries of a tar archive have one name.
    #[error("tar: entry {name} appears twice")]
    TarDuplicate { name: String },
    /// A header of a tar archive is not one.
    #[error("tar: the header at offset {offset} is damaged: {reason}")]
    TarHeader { offset: u64, reason: String },
    /// More entries than the reader accepts.
    #[error("tar: more than {limit} entries")]
    TarTooManyEntries { limit: u64 },
    /// Compressed bytes that are not valid, or end too soon.
    #[error("{name}: the compressed bytes are damaged or cut off")]
    Deflate { name: String },
    /// Inflated, the entry would be longer than the reader accepts.
    #[error("{name} has {bytes} bytes once unpacked, more than the limit of {limit}")]
    TooLarge { name: String, bytes: u64, limit: u64 },
    /// Compressed more than any honest file.
    #[error("{name} unpacks {stored} bytes into {bytes} or more, above the limit of {limit} to 1")]
    Ratio { name: String, stored: u64, bytes: u64, limit: u64 },
    /// An entry is longer or shorter than it claims.
    #[error("{name} unpacks into {found} bytes, expected {expected}")]
    Length { name: String, expected: u64, found: u64 },
}
