//! Thrift's compact protocol, as far as Parquet's footer and page headers need it: read into a tree of numbers and bytes.

use super::{FileError, damaged};
use crate::bytes::Bytes;

/// Parquet nests five deep.
const MAX_DEPTH: usize = 16;
/// Each value of the tree takes more memory than its bytes; real footers have some thousands.
const MAX_VALUES: usize = 1 << 20;

/// A value of the tree; what no reader asks for is kept too, but costs little.
#[derive(Debug)]
pub enum ThriftValue<'a> {
    Number(i64),
    Bytes(&'a [u8]),
    List(Vec<ThriftValue<'a>>),
    Struct(Struct<'a>),
    /// Doubles and maps, which Parquet's metadata use nowhere we look.
    Other,
}

/// Fields by number.
#[derive(Debug, Default)]
pub struct Struct<'a>(Vec<(i16, ThriftValue<'a>)>);

impl<'a> Struct<'a> {
    fn get(&self, field: i16) -> Option<&ThriftValue<'a>> {
        self.0.iter().find(|(number, _)| *number == field).map(|(_, value)| value)
    }

    /// A whole number or a Boolean.
    pub fn number(&self, field: i16) -> Option<i64> {
        if let Some(ThriftValue::Number(number)) = self.get(field) { Some(*number) } else { None }
    }

    /// A number that counts or measures: at least 0.
    pub fn size(&self, field: i16, what: &str) -> Result<u64, FileError> {
        let number = self.number(field).and_then(|number| u64::try_from(number).ok());
        number.ok_or_else(|| damaged(format!("{what} is missing or negative")))
    }

    /// Text.
    pub fn text(&self, field: i16) -> Option<&'a str> {
        if let Some(ThriftValue::Bytes(bytes)) = self.get(field) { std::str::from_utf8(bytes).ok() } else { None }
    }

    /// A list; empty when it is absent.
    pub fn list(&self, field: i16) -> &[ThriftValue<'a>] {
        if let Some(ThriftValue::List(list)) = self.get(field) { list } else { &[] }
    }

    /// The structs of a list.
    pub fn structs(&self, field: i16) -> impl Iterator<Item = &Struct<'a>> {
        self.list(field)
            .iter()
            .filter_map(|value| if let ThriftValue::Struct(inner) = value { Some(inner) } else { None })
    }

    /// A struct inside this one.
    pub fn inner(&self, field: i16) -> Option<&Struct<'a>> {
        if let Some(ThriftValue::Struct(inner)) = self.get(field) { Some(inner) } else { None }
    }
}

/// Reads one struct; gives it and the bytes it took.
pub fn read(bytes: &[u8]) -> Result<(Struct<'_>, usize), FileError> {
    let mut reader = ThriftReader { bytes: Bytes::new(bytes, "Parquet metadata"), values: 0 };
    let outer = reader.structure(0)?;
    Ok((outer, reader.bytes.offset() as usize))
}

struct ThriftReader<'a> {
    bytes: Bytes<'a>,
    values: usize,
}

impl<'a> ThriftReader<'a> {
    fn structure(&mut self, depth: usize) -> Result<Struct<'a>, FileError> {
        if depth > MAX_DEPTH {
            return Err(damaged("metadata nested too deeply"));
        }
        let mut fields = Struct::default();
        let mut field = 0i16;
        loop {
            let header = self.bytes.u8()?;
            if header == 0 {
                return Ok(fields);
            }
            self.charge(1)?;
            field = match header >> 4 {
                0 => self.signed()? as i16,
                delta => field.wrapping_add(delta.into()),
            };
            let value = match header & 15 {
                // A Boolean field is its own type.
                1 => ThriftValue::Number(1),
                2 => ThriftValue::Number(0),
                kind => self.value(kind, depth)?,
            };
            fields.0.push((field, value));
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Result<ThriftValue<'a>, FileError> {
        Ok(match kind {
            1..=3 => ThriftValue::Number((self.bytes.u8()? as i8).into()),
            4..=6 => ThriftValue::Number(self.signed()?),
            7 => {
                self.bytes.take(8)?;
                ThriftValue::Other
            }
            8 => {
                let length = self.unsigned()?;
                ThriftValue::Bytes(self.bytes.take(length)?)
            }
            9 | 10 => self.list(depth)?,
            11 => self.map(depth)?,
            12 => ThriftValue::Struct(self.structure(depth + 1)?),
            _ => return Err(damaged("metadata of an unknown type")),
        })
    }

    fn list(&mut self, depth: usize) -> Result<ThriftValue<'a>, FileError> {
        let header = self.bytes.u8()?;
        let count = match header >> 4 {
            15 => self.unsigned()?,
            count => count.into(),
        };
        self.check_count(count, depth)?;
        // Every item takes at least one byte, so the file bounds the list.
        let items = (0..count).map(|_| self.value(header & 15, depth + 1));
        Ok(ThriftValue::List(items.collect::<Result<_, _>>()?))
    }

    fn map(&mut self, depth: usize) -> Result<ThriftValue<'a>, FileError> {
        let count = self.unsigned()?;
        self.check_count(count, depth)?;
        if count > 0 {
            let kinds = self.bytes.u8()?;
            for _ in 0..count {
                self.value(kinds >> 4, depth + 1)?;
                self.value(kinds & 15, depth + 1)?;
            }
        }
        Ok(ThriftValue::Other)
    }

    fn check_count(&mut self, count: u64, depth: usize) -> Result<(), FileError> {
        if count > self.bytes.left() as u64 || depth > MAX_DEPTH {
            return Err(damaged(format!("a list of {count} items, more than the file can hold")));
        }
        self.charge(count as usize)
    }

    fn charge(&mut self, values: usize) -> Result<(), FileError> {
        self.values = self.values.saturating_add(values);
        if self.values > MAX_VALUES {
            return Err(damaged(format!("metadata of more than {MAX_VALUES} values")));
        }
        Ok(())
    }

    fn unsigned(&mut self) -> Result<u64, FileError> {
        varint(&mut self.bytes)
    }

    /// Zigzag: 0, -1, 1, -2, …
    fn signed(&mut self) -> Result<i64, FileError> {
        let number = self.unsigned()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }
}

/// Seven bits a byte, the lowest first.
pub fn varint(bytes: &mut Bytes) -> Result<u64, FileError> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes.u8()?;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(damaged("a number of more than 64 bits"))
}
