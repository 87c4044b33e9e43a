//! Parquet's hybrid of run lengths and bit packing: definition levels and dictionary indices.

use super::thrift::varint;
use super::{FileError, damaged};
use crate::bytes::Bytes;

/// Reads `count` numbers of `width` bits.
pub fn read(bytes: &[u8], width: u32, count: usize) -> Result<Vec<u32>, FileError> {
    if width > 32 {
        return Err(damaged(format!("numbers of {width} bits")));
    }
    let mut cursor = Bytes::new(bytes, "Parquet levels");
    let mut numbers = Vec::with_capacity(count);
    while numbers.len() < count {
        let header = varint(&mut cursor)?;
        let left = count - numbers.len();
        if header & 1 == 0 {
            let value =
                cursor.take(width.div_ceil(8).into())?.iter().rev().fold(0, |sum, &byte| sum << 8 | u32::from(byte));
            let run = usize::try_from(header >> 1).unwrap_or(usize::MAX).min(left);
            if run == 0 {
                return Err(damaged("a run of no numbers"));
            }
            numbers.extend(std::iter::repeat_n(value, run));
        } else {
            let groups = (header >> 1).min(left.div_ceil(8) as u64);
            if groups == 0 {
                return Err(damaged("a run of no numbers"));
            }
            let packed = cursor.take(groups * u64::from(width))?;
            unpack(packed, width, (groups as usize * 8).min(left), &mut numbers);
        }
    }
    Ok(numbers)
}

/// Numbers of `width` bits, the lowest bit first.
fn unpack(packed: &[u8], width: u32, count: usize, numbers: &mut Vec<u32>) {
    let mask = (1u64 << width) - 1;
    let (mut window, mut bits) = (0u64, 0);
    let mut packed = packed.iter();
    for _ in 0..count {
        while bits < width {
            window |= u64::from(packed.next().copied().unwrap_or(0)) << bits;
            bits += 8;
        }
        numbers.push((window & mask) as u32);
        window >>= width;
        bits -= width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_specification_reads_back() {
        // The numbers 0 to 7 in 3 bits: 0x88 0xC6 0xFA.
        assert_eq!(read(&[0b11, 0x88, 0xC6, 0xFA], 3, 8).unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(read(&[8, 5], 3, 4).unwrap(), [5; 4]);
        assert_eq!(read(&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F], 0, 3).unwrap(), [0; 3]);
    }

    #[test]
    fn runs_that_lie_are_cut_or_refused() {
        assert_eq!(read(&[0xFE, 0xFF, 0xFF, 0xFF, 0x0F, 1], 1, 3).unwrap(), [1; 3]);
        assert!(read(&[0, 1], 1, 3).is_err());
        assert!(read(&[1], 1, 3).is_err());
        assert!(read(&[3], 8, 8).is_err());
        assert!(read(&[2, 0], 33, 1).is_err());
    }
}
