//! GIF's form of LZW: codes of growing width, least significant bit first.

/// Codes have at most so many bits; then the table begins anew.
const WIDEST: u32 = 12;
/// No code.
const NONE: u16 = u16::MAX;

/// Codes packed into bytes.
struct Packer {
    bytes: Vec<u8>,
    bits: u32,
    count: u32,
}

impl Packer {
    fn push(&mut self, code: u16, width: u32) {
        self.bits |= u32::from(code) << self.count;
        self.count += width;
        while self.count >= 8 {
            self.bytes.push(self.bits as u8);
            self.bits >>= 8;
            self.count -= 8;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.bytes.push(self.bits as u8);
        }
        self.bytes
    }
}

/// Compresses indices of at most `bits` bits.
pub fn compress(bits: u8, indices: &[u8]) -> Vec<u8> {
    let symbols = 1u16 << bits;
    let (clear, end) = (symbols, symbols + 1);
    let mut packer = Packer { bytes: Vec::new(), bits: 0, count: 0 };
    // The code of a known text followed by a symbol.
    let mut longer = vec![NONE; (1 << WIDEST) * usize::from(symbols)];
    let (mut next, mut width) = (end + 1, u32::from(bits) + 1);
    packer.push(clear, width);
    let Some((&first, rest)) = indices.split_first() else {
        packer.push(end, width);
        return packer.finish();
    };
    let mut text = u16::from(first);
    for &symbol in rest {
        let place = usize::from(text) * usize::from(symbols) + usize::from(symbol);
        if longer[place] != NONE {
            text = longer[place];
            continue;
        }
        packer.push(text, width);
        text = u16::from(symbol);
        if next < 1 << WIDEST {
            longer[place] = next;
            // The reader is one entry behind: it widens when it has made the one before.
            if next == 1 << width {
                width += 1;
            }
            next += 1;
        } else {
            packer.push(clear, width);
            longer.fill(NONE);
            (next, width) = (end + 1, u32::from(bits) + 1);
        }
    }
    packer.push(text, width);
    // The reader makes an entry from this code too, and may widen by it.
    if next == 1 << width && width < WIDEST {
        width += 1;
    }
    packer.push(end, width);
    packer.finish()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The reverse, written from the format's description.
    pub fn expand(bits: u8, bytes: &[u8]) -> Vec<u8> {
        let (clear, end) = (1usize << bits, (1usize << bits) + 1);
        let start: Vec<Vec<u8>> = (0..=end).map(|symbol| vec![symbol as u8]).collect();
        let (mut table, mut width) = (start.clone(), usize::from(bits) + 1);
        let (mut out, mut before, mut at): (Vec<u8>, Option<usize>, usize) = (Vec::new(), None, 0);
        loop {
            let bit = |i: usize| usize::from(bytes[(at + i) / 8] >> ((at + i) % 8) & 1);
            let code: usize = (0..width).map(|i| bit(i) << i).sum();
            at += width;
            if code == clear {
                (table, width, before) = (start.clone(), usize::from(bits) + 1, None);
                continue;
            }
            if code == end {
                // Only the padding of the last byte may follow.
                assert_eq!(at.div_ceil(8), bytes.len());
                return out;
            }
            if let Some(before) = before.filter(|_| table.len() < 1 << WIDEST) {
                let mut text = table[before].clone();
                let first = if code == table.len() { text[0] } else { table[code][0] };
                text.push(first);
                table.push(text);
                if table.len() == 1 << width && width < WIDEST as usize {
                    width += 1;
                }
            }
            out.extend(&table[code]);
            before = Some(code);
        }
    }

    #[test]
    fn what_is_compressed_expands_to_the_same() {
        let noise = |count: usize, bits: u32| -> Vec<u8> {
            let mut state = 12345u32;
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> (32 - bits)) as u8
            };
            (0..count).map(|_| next()).collect()
        };
        for count in (0..40).chain([255, 256, 257, 3837, 3838, 3839, 3840, 3841, 9000, 100_000]) {
            for (bits, indices) in
                [(8, noise(count, 8)), (8, vec![7; count]), (2, noise(count, 2)), (4, noise(count, 1))]
            {
                assert!(expand(bits, &compress(bits, &indices)) == indices, "{count} of {bits} bits");
            }
        }
    }

    #[test]
    fn what_repeats_becomes_small() {
        assert!(compress(8, &[7; 100_000]).len() < 1000);
    }
}
