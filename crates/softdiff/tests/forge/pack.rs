//! Compressed bytes and deflated zip entries.

use super::zip::Entry;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use std::io::Write;

pub fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A deflated entry; its sizes stand in the directory only, as streaming writers do.
pub fn deflated(name: &str, bytes: &[u8]) -> Entry {
    let packed = deflate(bytes);
    let mut entry = Entry::new(name, packed.clone());
    (entry.method, entry.flags) = (8, 8);
    entry.crc = super::crc32(bytes);
    (entry.size, entry.stored_size) = (bytes.len() as u32, packed.len() as u32);
    entry
}
