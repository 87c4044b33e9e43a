//! Writes archives, arrays, pickles and checkpoints by hand, right or wrong, to test their readers.
#![allow(dead_code)] // Each test file uses its own part.

pub mod checkpoint;
pub mod damage;
pub mod npy;
pub mod pack;
pub mod pickle;
pub mod tar;
pub mod zip;

/// CRC-32 one bit at a time, independent of the library's table.
pub fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()))
    })
}
