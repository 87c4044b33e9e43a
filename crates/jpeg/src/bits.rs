//! The entropy-coded bits of a scan: `FF 00` is a byte FF, any other `FF xx` ends the data.

use crate::{JpegError, cut, damaged};

/// Reads bits, first the highest of each byte.
pub struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The next bits, from the top.
    window: u64,
    /// How many bits of the window are real.
    count: u32,
}

impl<'a> Bits<'a> {
    /// Starts at byte `at`.
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        Bits { bytes, at, window: 0, count: 0 }
    }

    /// Where the next marker is to be looked for.
    pub fn position(&self) -> usize {
        self.at
    }

    fn fill(&mut self) {
        while self.count <= 56 {
            let byte = match (self.bytes.get(self.at), self.bytes.get(self.at + 1)) {
                (Some(0xFF), Some(0x00)) => {
                    self.at += 1;
                    0xFF
                }
                (None, _) | (Some(0xFF), _) => return,
                (Some(&byte), _) => byte,
            };
            self.at += 1;
            self.window |= u64::from(byte) << (56 - self.count);
            self.count += 8;
        }
    }

    /// The next 16 bits without taking them; zeros after the end.
    pub fn peek16(&mut self) -> usize {
        if self.count < 16 {
            self.fill();
        }
        (self.window >> 48) as usize
    }

    /// Takes bits that were peeked at.
    pub fn skip(&mut self, count: u32) -> Result<(), JpegError> {
        if count > self.count {
            return Err(cut());
        }
        self.window <<= count;
        self.count -= count;
        Ok(())
    }

    /// The next `count` bits as a number; at most 16.
    pub fn take(&mut self, count: u32) -> Result<i32, JpegError> {
        if count == 0 {
            return Ok(0);
        }
        let value = self.peek16() >> (16 - count);
        self.skip(count)?;
        Ok(value as i32)
    }

    /// One bit.
    pub fn bit(&mut self) -> Result<bool, JpegError> {
        Ok(self.take(1)? == 1)
    }

    /// A number of `size` bits in the sign convention of T.81, F.2.2.1 (EXTEND).
    pub fn signed(&mut self, size: u32) -> Result<i32, JpegError> {
        let value = self.take(size)?;
        Ok(if size > 0 && value < 1 << (size - 1) { value - (1 << size) + 1 } else { value })
    }

    /// Steps over restart marker number `number` modulo 8.
    pub fn restart(&mut self, number: usize) -> Result<(), JpegError> {
        (self.window, self.count) = (0, 0);
        // The data before the marker may be padded with bytes FF.
        while let (Some(0xFF), Some(0xFF)) = (self.bytes.get(self.at), self.bytes.get(self.at + 1)) {
            self.at += 1;
        }
        match (self.bytes.get(self.at), self.bytes.get(self.at + 1)) {
            (Some(0xFF), Some(&marker)) if usize::from(marker) == 0xD0 + number % 8 => {
                self.at += 2;
                Ok(())
            }
            (None, _) | (_, None) => Err(cut()),
            _ => Err(damaged("a restart marker is missing")),
        }
    }
}
