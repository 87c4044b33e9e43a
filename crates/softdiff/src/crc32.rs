//! CRC-32 (IEEE 802.3, as in zip): reflected polynomial 0xEDB88320, eight bytes at a time; and Castagnoli's CRC-32C.
//!
//! The plain one-byte table would spend seconds on a checkpoint of a gigabyte; slicing by eight costs seven more tables.

const TABLES: [[u32; 256]; 8] = tables(0xEDB8_8320);
/// RFC 3720, reflected.
const CASTAGNOLI: [[u32; 256]; 8] = tables(0x82F6_3B78);

const fn tables(polynomial: u32) -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (polynomial & (crc & 1).wrapping_neg());
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    // Table k is the effect of a byte with k zero bytes after it.
    let mut slice = 1;
    while slice < 8 {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[slice - 1][byte];
            tables[slice][byte] = (crc >> 8) ^ tables[0][(crc & 0xFF) as usize];
            byte += 1;
        }
        slice += 1;
    }
    tables
}

/// The checksum of `bytes`.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    continued(0, bytes)
}

/// The checksum of some bytes whose own is `crc`, followed by `bytes`.
pub(crate) fn continued(crc: u32, bytes: &[u8]) -> u32 {
    with(&TABLES, crc, bytes)
}

/// Castagnoli's checksum, as in TFRecord files.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    with(&CASTAGNOLI, 0, bytes)
}

fn with(tables: &[[u32; 256]; 8], crc: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut crc = !crc;
    for word in words {
        let [a, b, c, d, e, f, g, h] = *word;
        let [a, b, c, d] = (crc ^ u32::from_le_bytes([a, b, c, d])).to_le_bytes();
        crc = [h, g, f, e, d, c, b, a].iter().zip(tables).fold(0, |sum, (&byte, table)| sum ^ table[byte as usize]);
    }
    for &byte in rest {
        crc = (crc >> 8) ^ tables[0][(crc as u8 ^ byte) as usize];
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::{continued, crc32, crc32c};

    /// The check value of the CRC catalogue.
    #[test]
    fn nine_digits_give_the_check_value() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    /// RFC 3720, appendix B.4.
    #[test]
    fn the_examples_of_the_iscsi_standard() {
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(&ascending), 0x46DD_794E);
    }

    #[test]
    fn eight_at_a_time_equals_one_bit_at_a_time() {
        let bytes: Vec<u8> = (0u32..1000).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for length in [1, 7, 8, 9, 63, 64, 65, 1000] {
            let slow = bytes[..length].iter().fold(!0u32, |crc, &byte| {
                (0..8).fold(crc ^ byte as u32, |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 })
            });
            assert_eq!(crc32(&bytes[..length]), !slow);
            assert_eq!(continued(crc32(&bytes[..length / 3]), &bytes[length / 3..length]), !slow);
        }
    }
}
