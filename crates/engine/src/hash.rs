//! Content hashes: 128 bits of BLAKE3, by which data, weights and maps are recognised again.

use std::fmt;

/// What some content hashes to; written into files as `blake3:` and 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentHash([u8; 16]);

impl ContentHash {
    /// Of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        blake3::Hasher::new().update(bytes).into()
    }

    /// Of the little-endian bytes of some numbers.
    pub fn of_values(values: impl IntoIterator<Item = f64>) -> Self {
        let mut hasher = blake3::Hasher::new();
        let mut block = Vec::with_capacity(1 << 14);
        for value in values {
            block.extend_from_slice(&value.to_le_bytes());
            if block.len() == block.capacity() {
                hasher.update(&block);
                block.clear();
            }
        }
        hasher.update(&block).into()
    }

    /// Of parts that were hashed each on its own, in this order.
    pub fn of_parts(parts: impl IntoIterator<Item = ContentHash>) -> Self {
        let mut hasher = PartsHasher::default();
        parts.into_iter().for_each(|part| hasher.add(part));
        hasher.finish()
    }

    /// Its bytes, as they are sent to other ranks.
    pub fn bytes(&self) -> [u8; 16] {
        self.0
    }

    /// As it was sent.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        ContentHash(bytes)
    }

    /// The 32 hexadecimal digits, as file names have them.
    pub fn hex(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }
}

/// [`ContentHash::of_parts`] of parts that come one by one.
#[derive(Debug, Default)]
pub struct PartsHasher(blake3::Hasher);

impl PartsHasher {
    /// The next part.
    pub fn add(&mut self, part: ContentHash) {
        self.0.update(&part.0);
    }

    /// The hash of all of them.
    pub fn finish(mut self) -> ContentHash {
        (&mut self.0).into()
    }
}

impl From<&mut blake3::Hasher> for ContentHash {
    fn from(hasher: &mut blake3::Hasher) -> Self {
        let mut bytes = [0; 16];
        hasher.finalize_xof().fill(&mut bytes);
        ContentHash(bytes)
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blake3:{}", self.hex())
    }
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo): the keys of [`crate::rng::RandomStream`], and the hashes of older files.
pub fn fnv1a64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The text of an [`fnv1a64`] in older files.
pub fn fnv1a64_text(hash: u64) -> String {
    format!("fnv1a64:{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_equal_the_published_vectors() {
        assert_eq!(ContentHash::of(b"").to_string(), "blake3:af1349b9f5f9a1a6a0404dea36dcc949");
        assert_eq!(fnv1a64(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a64(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a64_text(fnv1a64(b"foobar")), "fnv1a64:85944171f73967e8");
    }

    #[test]
    fn values_are_hashed_as_their_bytes() {
        let values: Vec<f64> = (0..5000).map(|i| f64::from(i) * 0.1).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(ContentHash::of_values(values), ContentHash::of(&bytes));
    }
}
