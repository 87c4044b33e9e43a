//! TFRecord: a record is its length (8 bytes), the length's checksum, the bytes, and their checksum, little endian.

use crc32c::crc32c;

/// Appends a record.
pub fn append(file: &mut Vec<u8>, record: &[u8]) {
    let length = (record.len() as u64).to_le_bytes();
    file.extend_from_slice(&length);
    file.extend_from_slice(&masked(crc32c(&length)).to_le_bytes());
    file.extend_from_slice(record);
    file.extend_from_slice(&masked(crc32c(record)).to_le_bytes());
}

/// A checksum of bytes that hold checksums would be weak, so it is rotated and moved (TensorFlow, `crc32c.h`).
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xA282_EAD8)
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    /// The check value of the CRC catalogue, and RFC 3720, appendix B.4.
    #[test]
    fn the_checksum_is_that_of_castagnoli() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
    }
}
