//! Base64 (RFC 4648), for pictures inside a page.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes as text, with padding.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let [a, b, c] = [0, 1, 2].map(|i| u32::from(part.get(i).copied().unwrap_or(0)));
        let group = a << 16 | b << 8 | c;
        for letter in 0..4 {
            let index = (group >> (18 - 6 * letter) & 63) as usize;
            text.push(if letter <= part.len() { char::from(LETTERS[index]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    /// RFC 4648, section 10.
    #[test]
    fn the_standards_own_examples() {
        let examples =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")];
        for (plain, text) in examples {
            assert_eq!(super::encode(plain.as_bytes()), text);
        }
        assert_eq!(super::encode(&[0xfb, 0xff]), "+/8=");
    }
}
