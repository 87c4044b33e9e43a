//! Column chunks: pages of values, plain or as indices into a dictionary.

use super::footer::{Chunk, Footer, Physical, SchemaLeaf};
use super::thrift::{self, Struct};
use super::{FileError, codec, damaged, hybrid, unsupported};
use crate::bytes::Bytes;
use softdiff_engine::shared_bytes::SharedBytes;
use std::ops::Range;

const DATA_PAGE: i64 = 0;
const INDEX_PAGE: i64 = 1;
const DICTIONARY_PAGE: i64 = 2;
const DATA_PAGE_V2: i64 = 3;
const PLAIN: i64 = 0;
const PLAIN_DICTIONARY: i64 = 2;
const RLE_DICTIONARY: i64 = 8;

/// A value: some bytes of a page.
#[derive(Clone)]
pub struct ByteSlice {
    page: SharedBytes,
    range: Range<usize>,
}

impl ByteSlice {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.page.get(self.range.clone()).unwrap_or_default()
    }
}

/// All values of a column of byte arrays; `None` where null.
pub fn byte_arrays(
    file: &SharedBytes,
    footer: &Footer,
    leaf: usize,
    budget: &mut u64,
) -> Result<Vec<Option<ByteSlice>>, FileError> {
    read(file, footer, leaf, budget)
}

/// All values of a column of whole numbers as labels; none if one of them is null or negative (an unlabelled part).
pub fn labels(
    file: &SharedBytes,
    footer: &Footer,
    leaf: usize,
    budget: &mut u64,
) -> Result<Option<Vec<u32>>, FileError> {
    let number = |slice: &ByteSlice| {
        let wide = match *slice.bytes() {
            [a, b, c, d] => i32::from_le_bytes([a, b, c, d]).into(),
            [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => -1,
        };
        u32::try_from(wide).ok()
    };
    Ok(read(file, footer, leaf, budget)?.iter().map(|value| number(value.as_ref()?)).collect())
}

fn read(
    file: &SharedBytes,
    footer: &Footer,
    leaf: usize,
    budget: &mut u64,
) -> Result<Vec<Option<ByteSlice>>, FileError> {
    let (leaf, chunks) = footer.leaf(leaf).ok_or_else(|| damaged("a column is missing"))?;
    let mut values = Vec::new();
    for chunk in chunks {
        let expected = (values.len() as u64).saturating_add(chunk.values);
        if expected > footer.rows {
            return Err(damaged(format!("{expected} values in {} rows", footer.rows)));
        }
        let mut pages = Pages { file, leaf, chunk, dictionary: Vec::new(), budget };
        pages.read(&mut values, expected as usize)?;
    }
    if values.len() as u64 != footer.rows {
        return Err(damaged(format!("{} values in {} rows", values.len(), footer.rows)));
    }
    Ok(values)
}

struct Pages<'a> {
    file: &'a SharedBytes,
    leaf: &'a SchemaLeaf,
    chunk: &'a Chunk,
    dictionary: Vec<ByteSlice>,
    budget: &'a mut u64,
}

impl Pages<'_> {
    fn read(&mut self, values: &mut Vec<Option<ByteSlice>>, expected: usize) -> Result<(), FileError> {
        let mut at = self.chunk.offset as usize;
        let end = at + self.chunk.length as usize;
        while values.len() < expected {
            let rest = self.file.get(at..end).unwrap_or_default();
            if rest.is_empty() {
                return Err(damaged("a column ends before its last page"));
            }
            let (header, length) = thrift::read(rest)?;
            let packed = header.size(3, "the packed size of a page")?;
            let start = at + length;
            if packed > (end - start) as u64 {
                return Err(damaged("a page that reaches beyond its column"));
            }
            at = start + packed as usize;
            match header.number(1) {
                Some(DICTIONARY_PAGE) => self.read_dictionary(&header, start..at)?,
                Some(DATA_PAGE) => self.read_data(&header, start..at, values, expected)?,
                Some(DATA_PAGE_V2) => self.read_data_v2(&header, start..at, values, expected)?,
                Some(INDEX_PAGE) => {}
                _ => return Err(damaged("a page of an unknown kind")),
            }
        }
        Ok(())
    }

    /// The page's bytes, unpacked: a page of its own, or a part of the file.
    fn unpack(
        &mut self,
        header: &Struct,
        packed: Range<usize>,
        skip: usize,
        is_packed: bool,
    ) -> Result<ByteSlice, FileError> {
        let length = header.size(2, "the size of a page")?.checked_sub(skip as u64);
        let length = length.ok_or_else(|| damaged("a page smaller than its levels"))?;
        let range = packed.start + skip..packed.end;
        let bytes = self.file.get(range.clone()).ok_or_else(|| damaged("a page smaller than its levels"))?;
        let codec = if is_packed { self.chunk.codec } else { 0 };
        Ok(match codec::unpack(codec, bytes, length, self.budget)? {
            Some(page) => ByteSlice { range: 0..page.len(), page: page.into() },
            None => ByteSlice { page: self.file.clone(), range },
        })
    }

    fn read_dictionary(&mut self, header: &Struct, packed: Range<usize>) -> Result<(), FileError> {
        let inner = header.inner(7).ok_or_else(|| damaged("a dictionary page without its header"))?;
        let count = inner.size(1, "the size of a dictionary")?;
        if count > self.chunk.values {
            return Err(damaged(format!("a dictionary of {count} entries for {} values", self.chunk.values)));
        }
        let page = self.unpack(header, packed, 0, true)?;
        self.dictionary = plain(&page, 0, self.leaf.physical, count)?;
        Ok(())
    }

    fn read_data(
        &mut self,
        header: &Struct,
        packed: Range<usize>,
        values: &mut Vec<Option<ByteSlice>>,
        expected: usize,
    ) -> Result<(), FileError> {
        let inner = header.inner(5).ok_or_else(|| damaged("a data page without its header"))?;
        let count = self.count(inner, values.len(), expected)?;
        let page = self.unpack(header, packed, 0, true)?;
        let mut cursor = Bytes::new(page.bytes(), "Parquet data page");
        let mut levels: &[u8] = &[];
        if self.leaf.max_definition > 0 {
            let length = cursor.u32()?;
            levels = cursor.take(length.into())?;
        }
        let start = cursor.offset() as usize;
        self.append(&page, start, levels, inner.number(2), count, values)
    }

    fn read_data_v2(
        &mut self,
        header: &Struct,
        packed: Range<usize>,
        values: &mut Vec<Option<ByteSlice>>,
        expected: usize,
    ) -> Result<(), FileError> {
        let inner = header.inner(8).ok_or_else(|| damaged("a data page without its header"))?;
        let count = self.count(inner, values.len(), expected)?;
        let definition = inner.size(5, "the length of the levels")?;
        let repetition = inner.size(6, "the length of the levels")?;
        let file = self.file.clone();
        let cut = || damaged("a page smaller than its levels");
        let both = definition.checked_add(repetition).and_then(|both| usize::try_from(both).ok()).ok_or_else(cut)?;
        // The levels lie before the values and are never packed.
        let levels = file.get(packed.clone()).and_then(|page| page.get(repetition as usize..both)).ok_or_else(cut)?;
        let page = self.unpack(header, packed, both, inner.number(7) != Some(0))?;
        self.append(&page, 0, levels, inner.number(4), count, values)
    }

    /// The number of values of a page, which the chunk must still have room for.
    fn count(&self, inner: &Struct, read: usize, expected: usize) -> Result<usize, FileError> {
        let count = inner.size(1, "the number of values of a page")?;
        match usize::try_from(count) {
            Ok(count) if count > 0 && count <= expected - read => Ok(count),
            _ => Err(damaged(format!("a page of {count} values where {} are left", expected - read))),
        }
    }

    fn append(
        &self,
        page: &ByteSlice,
        start: usize,
        levels: &[u8],
        encoding: Option<i64>,
        count: usize,
        values: &mut Vec<Option<ByteSlice>>,
    ) -> Result<(), FileError> {
        let most = self.leaf.max_definition;
        let present: Vec<bool> = match most {
            0 => vec![true; count],
            _ => hybrid::read(levels, u32::BITS - most.leading_zeros(), count)?
                .iter()
                .map(|&level| level == most)
                .collect(),
        };
        let wanted = present.iter().filter(|&&present| present).count();
        let mut found = match encoding {
            Some(PLAIN) => plain(page, start, self.leaf.physical, wanted as u64)?,
            Some(PLAIN_DICTIONARY | RLE_DICTIONARY) => {
                self.look_up(page.bytes().get(start..).unwrap_or_default(), wanted)?
            }
            _ => {
                return Err(unsupported(
                    "an encoding other than plain and dictionary: write it without delta encoding",
                ));
            }
        }
        .into_iter();
        values.extend(present.into_iter().map(|present| if present { found.next() } else { None }));
        Ok(())
    }

    fn look_up(&self, bytes: &[u8], count: usize) -> Result<Vec<ByteSlice>, FileError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let (&width, packed) = bytes.split_first().ok_or_else(|| damaged("a page without indices"))?;
        let value = |index: u32| self.dictionary.get(index as usize).cloned();
        let indices = hybrid::read(packed, width.into(), count)?;
        let values: Option<Vec<ByteSlice>> = indices.into_iter().map(value).collect();
        values.ok_or_else(|| damaged("an index beyond the dictionary"))
    }
}

/// `count` plain values from byte `start` of a page.
fn plain(page: &ByteSlice, start: usize, physical: Physical, count: u64) -> Result<Vec<ByteSlice>, FileError> {
    let bytes = page.bytes();
    let mut cursor = Bytes::at(bytes, start as u64, "Parquet values")?;
    // Each value takes at least four bytes, so a lie about the count costs nothing.
    if count > cursor.left() as u64 / 4 {
        return Err(damaged(format!("{count} values in {} bytes", cursor.left())));
    }
    let value = |_| {
        let length = match physical {
            Physical::Int32 => 4,
            Physical::Int64 => 8,
            Physical::ByteArray => cursor.u32()?.into(),
            Physical::Other => return Err(unsupported("a column of another type")),
        };
        let first = page.range.start + cursor.offset() as usize;
        let length = cursor.take(length)?.len();
        Ok(ByteSlice { page: page.page.clone(), range: first..first + length })
    };
    (0..count).map(value).collect()
}
