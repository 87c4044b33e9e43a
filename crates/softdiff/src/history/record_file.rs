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

/// Bytes of a record in the file, which has so many itself.
pub fn framed(record: usize) -> usize {
    16 + record
}

/// The records of a file up to the first that is torn or damaged.
pub fn records(mut file: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (head, rest) = file.split_at_checked(12)?;
        let (length, checksum) = head.split_at(8);
        let is = |bytes: &[u8], checksum: &[u8]| masked(crc32c(bytes)).to_le_bytes() == *checksum;
        let size =
            usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok().filter(|_| is(length, checksum))?;
        let (record, rest) = rest.split_at_checked(size)?;
        let (checksum, rest) = rest.split_at_checked(4)?;
        file = rest;
        is(record, checksum).then_some(record)
    })
}

/// A checksum of bytes that hold checksums would be weak, so it is rotated and moved (TensorFlow, `crc32c.h`).
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xA282_EAD8)
}

#[cfg(test)]
mod tests {
    use super::{append, crc32c, framed, records};

    #[test]
    fn records_are_read_up_to_the_first_that_is_torn_or_damaged() {
        let mut file = Vec::new();
        [&b"one"[..], b"", b"three"].iter().for_each(|record| append(&mut file, record));
        assert_eq!(records(&file).collect::<Vec<_>>(), [&b"one"[..], b"", b"three"]);
        for length in 0..file.len() {
            let whole = [framed(3), framed(3) + framed(0)].iter().filter(|end| **end <= length).count();
            assert_eq!(records(&file[..length]).count(), whole, "cut at {length}");
            let mut damaged = file.clone();
            damaged[length] ^= 4;
            assert!(records(&damaged).count() < 3, "damaged at {length}");
        }
    }

    /// The check value of the CRC catalogue, and RFC 3720, appendix B.4.
    #[test]
    fn the_checksum_is_that_of_castagnoli() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
    }
}
