//! Huffman tables (T.81, annex C and F.2.2.3).

use crate::bits::Bits;
use crate::{JpegError, cut, damaged};

/// Codes up to this length are found in one look.
const SHORT: u32 = 9;

/// A table from codes to symbols.
pub struct HuffmanTable {
    /// For each `SHORT`-bit prefix: the symbol and the length of its code; length 0 when longer.
    short: Vec<(u8, u8)>,
    /// For each length: one past the last code of it, aligned to 16 bits.
    limit: [u32; 17],
    /// For each length: what to add to a code to get the index of its symbol.
    offset: [i32; 17],
    symbols: Vec<u8>,
}

impl HuffmanTable {
    fn new(counts: &[u8; 16], symbols: &[u8]) -> Result<HuffmanTable, JpegError> {
        let mut table = HuffmanTable {
            short: vec![(0, 0); 1 << SHORT],
            limit: [0; 17],
            offset: [0; 17],
            symbols: symbols.to_vec(),
        };
        let (mut code, mut index) = (0u32, 0usize);
        for (length, &count) in (1u32..).zip(counts) {
            let slot = length as usize;
            table.offset[slot] = index as i32 - code as i32;
            for &symbol in symbols.iter().skip(index).take(count.into()) {
                if length <= SHORT {
                    let first = (code << (SHORT - length)) as usize;
                    let entries = table.short.get_mut(first..first + (1 << (SHORT - length)));
                    entries.ok_or_else(|| damaged("a Huffman table with too many codes"))?.fill((symbol, length as u8));
                }
                code += 1;
                index += 1;
            }
            if code > 1 << length {
                return Err(damaged("a Huffman table with too many codes"));
            }
            table.limit[slot] = code << (16 - length);
            code <<= 1;
        }
        Ok(table)
    }

    /// The next symbol.
    #[inline]
    pub fn decode(&self, bits: &mut Bits) -> Result<u8, JpegError> {
        let window = bits.peek16();
        let &(symbol, length) = self.short.get(window >> (16 - SHORT)).unwrap_or(&(0, 0));
        if length > 0 {
            bits.skip(length.into())?;
            return Ok(symbol);
        }
        self.decode_long(bits, window as u32)
    }

    fn decode_long(&self, bits: &mut Bits, window: u32) -> Result<u8, JpegError> {
        for length in SHORT + 1..=16 {
            if window < self.limit[length as usize] {
                let code = (window >> (16 - length)) as i32;
                bits.skip(length)?;
                let index = usize::try_from(code + self.offset[length as usize]).ok();
                let symbol = index.and_then(|index| self.symbols.get(index));
                return symbol.copied().ok_or_else(|| damaged("a code outside its Huffman table"));
            }
        }
        // All ones also follow a file that ends.
        bits.skip(16).and(Err(damaged("a code outside its Huffman table")))
    }
}

/// Reads a DHT segment.
pub fn read_tables(
    mut body: &[u8],
    dc: &mut [Option<HuffmanTable>; 4],
    ac: &mut [Option<HuffmanTable>; 4],
) -> Result<(), JpegError> {
    while let Some((&selector, rest)) = body.split_first() {
        let (counts, rest) = rest.split_first_chunk::<16>().ok_or_else(cut)?;
        let total: usize = counts.iter().map(|&count| usize::from(count)).sum();
        if total > 256 {
            return Err(damaged("a Huffman table of more than 256 symbols"));
        }
        let (symbols, rest) = rest.split_at_checked(total).ok_or_else(cut)?;
        let tables = if selector >> 4 == 0 { &mut *dc } else { &mut *ac };
        let slot = tables.get_mut(usize::from(selector & 15)).filter(|_| selector >> 4 < 2);
        *slot.ok_or_else(|| damaged("a Huffman table with a wrong number"))? =
            Some(HuffmanTable::new(counts, symbols)?);
        body = rest;
    }
    Ok(())
}
