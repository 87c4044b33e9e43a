//! The parts that image files consist of, by their names. A file that is cut off or damaged has those before that place.

/// Marker and content of the segments of a JPEG before its first scan.
pub fn jpeg_segments(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut at = 2;
    std::iter::from_fn(move || {
        loop {
            let &[0xFF, marker, high, low] = bytes.get(at..at + 4)? else { return None };
            if marker == 0xFF {
                // Padding.
                at += 1;
                continue;
            }
            if matches!(marker, 0xDA | 0xD9) {
                return None;
            }
            let body = bytes.get(at + 4..at + 2 + usize::from(u16::from_be_bytes([high, low])))?;
            at += 4 + body.len();
            return Some((marker, body));
        }
    })
}

/// Name and content of the chunks of a PNG.
pub fn png_chunks(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut at = 8;
    std::iter::from_fn(move || {
        let length = u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize;
        let chunk = (bytes.get(at + 4..at + 8)?, bytes.get(at + 8..at.checked_add(8)?.checked_add(length)?)?);
        at += 12 + length;
        Some(chunk)
    })
}

/// Name and content of the chunks of a WebP.
pub fn webp_chunks(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut at = 12;
    std::iter::from_fn(move || {
        let length = u32::from_le_bytes(bytes.get(at + 4..at + 8)?.try_into().ok()?) as usize;
        let chunk = (bytes.get(at..at + 4)?, bytes.get(at + 8..at.checked_add(8)?.checked_add(length)?)?);
        // Chunks have even lengths.
        at += 8 + length + length % 2;
        Some(chunk)
    })
}
