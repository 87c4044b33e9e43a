//! A 64-bit content hash, to recognise the data a schedule was made from. Not for security.
//!
//! FNV-1a, 64 bits (Fowler, Noll, Vo): `h = (h xor byte) * prime`, from the offset basis.

const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// FNV-1a of some bytes.
pub fn of_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().fold(OFFSET_BASIS, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// FNV-1a of the little-endian bytes of some numbers.
pub fn of_values(values: impl IntoIterator<Item = f64>) -> u64 {
    values.into_iter().fold(OFFSET_BASIS, |hash, value| {
        value.to_le_bytes().iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
    })
}

/// The way a hash is written into files: `fnv1a64:` and sixteen hexadecimal digits.
pub fn to_text(hash: u64) -> String {
    format!("fnv1a64:{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_equal_the_published_vectors() {
        assert_eq!(of_bytes(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(of_bytes(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(of_bytes(b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(to_text(of_bytes(b"a")), "fnv1a64:af63dc4c8601ec8c");
        assert_eq!(of_values([1.5]), of_bytes(&1.5f64.to_le_bytes()));
    }
}
