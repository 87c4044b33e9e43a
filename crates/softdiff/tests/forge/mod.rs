//! Writes archives, arrays, pickles and checkpoints by hand, right or wrong, to test their readers.
#![allow(dead_code)] // Each test file uses its own part.

pub mod checkpoint;
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

/// SplitMix64: the same numbers on every machine.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }
}
