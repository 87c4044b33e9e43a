//! Snappy's raw format: a length, then literals and copies of earlier bytes.

use super::thrift::varint;
use super::{FileError, damaged};
use crate::bytes::Bytes;

/// Unpacks exactly `length` bytes.
pub fn unpack(packed: &[u8], length: usize) -> Result<Vec<u8>, FileError> {
    let mut cursor = Bytes::new(packed, "Snappy data");
    let claimed = varint(&mut cursor)?;
    if claimed != length as u64 {
        return Err(damaged(format!("a Snappy page of {claimed} bytes, expected {length}")));
    }
    let mut out = Vec::with_capacity(length);
    while cursor.left() > 0 {
        let tag = cursor.u8()?;
        let (offset, count) = match tag & 3 {
            0 => {
                let count = match tag >> 2 {
                    60 => cursor.u8()?.into(),
                    61 => cursor.u16()?.into(),
                    62 => u64::from(cursor.u16()?) | u64::from(cursor.u8()?) << 16,
                    63 => cursor.u32()?.into(),
                    count => u64::from(count),
                } + 1;
                if count > (length - out.len()) as u64 {
                    return Err(damaged("a Snappy page longer than it says"));
                }
                out.extend_from_slice(cursor.take(count)?);
                continue;
            }
            1 => (usize::from(tag >> 5) << 8 | usize::from(cursor.u8()?), usize::from(tag >> 2 & 7) + 4),
            2 => (usize::from(cursor.u16()?), usize::from(tag >> 2) + 1),
            _ => (cursor.u32()? as usize, usize::from(tag >> 2) + 1),
        };
        if offset == 0 || offset > out.len() || count > length - out.len() {
            return Err(damaged("a Snappy copy from outside the page"));
        }
        let start = out.len() - offset;
        // A copy may read what it has just written.
        for at in start..start + count {
            let byte = out.get(at).copied().unwrap_or_default();
            out.push(byte);
        }
    }
    if out.len() == length { Ok(out) } else { Err(damaged("a Snappy page shorter than it says")) }
}

#[cfg(test)]
mod tests {
    use super::unpack;

    #[test]
    fn literals_and_overlapping_copies_unpack() {
        // Literal "ab", then a copy of 6 bytes from 2 back.
        assert_eq!(unpack(&[8, 1 << 2, b'a', b'b', 2 | 5 << 2, 2, 0], 8).unwrap(), b"abababab");
    }

    #[test]
    fn lies_are_refused() {
        assert!(unpack(&[8, 1 << 2, b'a', b'b'], 8).is_err());
        assert!(unpack(&[8, 2 | 5 << 2, 2, 0], 8).is_err());
        assert!(unpack(&[3, 1 << 2, b'a', b'b', 2 | 5 << 2, 2, 0], 3).is_err());
        assert!(unpack(&[4, 63 << 2, 255, 255, 255, 255], 4).is_err());
        assert!(unpack(&[], 0).is_err());
    }
}
