//! A cursor over untrusted little-endian bytes: every read is checked, none can panic.

use thiserror::Error;

/// A part of a file that ends too soon.
#[derive(Debug, Error)]
#[allow(missing_docs)] // The fields are named as the messages use them.
pub enum BytesError {
    /// The part ends before its content does.
    #[error("{part} is cut off: {needed} bytes wanted at offset {offset}, {left} left")]
    Truncated { part: &'static str, offset: u64, needed: u64, left: u64 },
    /// A line of text does not end.
    #[error("{part}: no line end within {limit} bytes of offset {offset}")]
    NoLineEnd { part: &'static str, offset: u64, limit: usize },
}

/// Reads forward through one part of a file.
#[derive(Clone)]
pub struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
    part: &'static str,
}

impl<'a> Bytes<'a> {
    /// A cursor at the start of `all`; `part` names it in errors.
    pub fn new(all: &'a [u8], part: &'static str) -> Self {
        Bytes { all, at: 0, part }
    }

    /// A cursor at `offset` of `all`.
    pub fn at(all: &'a [u8], offset: u64, part: &'static str) -> Result<Self, BytesError> {
        match usize::try_from(offset) {
            Ok(at) if at <= all.len() => Ok(Bytes { all, at, part }),
            _ => Err(BytesError::Truncated { part, offset, needed: 1, left: 0 }),
        }
    }

    /// The offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.at as u64
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.all.len().saturating_sub(self.at)
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: u64) -> Result<&'a [u8], BytesError> {
        let taken = usize::try_from(count)
            .ok()
            .and_then(|count| self.at.checked_add(count))
            .and_then(|end| Some((end, self.all.get(self.at..end)?)));
        let Some((end, taken)) = taken else {
            return Err(BytesError::Truncated {
                part: self.part,
                offset: self.offset(),
                needed: count,
                left: self.left() as u64,
            });
        };
        self.at = end;
        Ok(taken)
    }

    /// The bytes up to the next newline, which is skipped; the line may have at most `limit` bytes.
    pub fn line(&mut self, limit: usize) -> Result<&'a [u8], BytesError> {
        let rest = self.all.get(self.at..).unwrap_or_default();
        let Some(length) = rest.iter().take(limit).position(|&byte| byte == b'\n') else {
            return Err(BytesError::NoLineEnd { part: self.part, offset: self.offset(), limit });
        };
        let line = self.take(length as u64)?;
        self.take(1)?;
        Ok(line)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BytesError> {
        let taken = self.take(N as u64)?;
        Ok(*taken.first_chunk::<N>().unwrap_or(&[0; N]))
    }

    /// The next byte.
    pub fn u8(&mut self) -> Result<u8, BytesError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// The next two bytes.
    pub fn u16(&mut self) -> Result<u16, BytesError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// The next four bytes.
    pub fn u32(&mut self) -> Result<u32, BytesError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// The next eight bytes.
    pub fn u64(&mut self) -> Result<u64, BytesError> {
        Ok(u64::from_le_bytes(self.array()?))
    }
}
