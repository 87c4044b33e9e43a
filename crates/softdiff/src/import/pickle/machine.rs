//! The stack machine: opcodes, stack, memo and scalars. Every error names the opcode and its offset.
//!
//! Values are put together in [`construct`](super::construct).

use super::global::Global;
use super::value::{Id, Pickle, PickleValue};
use super::{MAX_ITEMS, MAX_MARKS, MAX_MEMO, MAX_OPCODES, MAX_TEXT, opcode};
use crate::import::ImportError;
use softdiff_data::bytes::Bytes;
use softdiff_data::quote::quote;
use std::collections::HashMap;

const LONGEST_GLOBAL: usize = 128;

pub struct Machine<'a> {
    bytes: Bytes<'a>,
    pub(super) pickle: Pickle,
    stack: Vec<Id>,
    /// The stack's height at each open mark.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
    items: u64,
    /// The opcode being run, for errors.
    offset: u64,
    opcode: &'static str,
}

/// What an opcode returns.
pub(super) type PickleStep = Result<(), ImportError>;

impl<'a> Machine<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Machine {
            bytes: Bytes::new(bytes, "pickle"),
            pickle: Pickle { values: Vec::new(), index: HashMap::new(), root: Id(0) },
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
            items: 0,
            offset: 0,
            opcode: "PROTO",
        }
    }

    /// Runs to STOP; gives the pickle and the offset after it.
    pub fn run(mut self) -> Result<(Pickle, u64), ImportError> {
        for _ in 0..MAX_OPCODES {
            self.offset = self.bytes.offset();
            let code = self.bytes.u8()?;
            self.opcode = opcode::name(code).ok_or_else(|| self.unsupported(code))?;
            if code == b'.' {
                return self.stop();
            }
            self.step(code)?;
        }
        Err(self.limit("opcodes", MAX_OPCODES))
    }

    fn step(&mut self, code: u8) -> PickleStep {
        match code {
            0x80 => match self.bytes.u8()? {
                2 => Ok(()),
                found => Err(ImportError::PickleProtocol { found }),
            },
            b'(' => self.mark(),
            b'N' => self.push(PickleValue::None),
            0x88 => self.push(PickleValue::Bool(true)),
            0x89 => self.push(PickleValue::Bool(false)),
            b'K' => {
                let value = self.bytes.u8()?;
                self.push(PickleValue::Int(value.into()))
            }
            b'M' => {
                let value = self.bytes.u16()?;
                self.push(PickleValue::Int(value.into()))
            }
            b'J' => {
                let value = self.bytes.u32()?;
                self.push(PickleValue::Int((value as i32).into()))
            }
            0x8a => self.long1(),
            // The one big-endian number in a pickle.
            b'G' => {
                let bits = self.bytes.u64()?;
                self.push(PickleValue::Float(f64::from_bits(bits.swap_bytes())))
            }
            b'X' => self.text(),
            b')' => self.push(PickleValue::Tuple(Vec::new())),
            b']' => self.push(PickleValue::List(Vec::new())),
            b'}' => self.push(PickleValue::Dict(Vec::new())),
            0x85 => self.tuple(1),
            0x86 => self.tuple(2),
            0x87 => self.tuple(3),
            b't' => self.pop_mark().and_then(|ids| self.push_tuple(ids)),
            b'a' => self.pop().and_then(|id| self.append(vec![id])),
            b'e' => self.pop_mark().and_then(|ids| self.append(ids)),
            b's' => self.pop_many(2).and_then(|ids| self.set_items(ids)),
            b'u' => self.pop_mark().and_then(|ids| self.set_items(ids)),
            b'q' => {
                let index = self.bytes.u8()?;
                self.put(index.into())
            }
            b'r' => {
                let index = self.bytes.u32()?;
                self.put(index)
            }
            b'h' => {
                let index = self.bytes.u8()?;
                self.get(index.into())
            }
            b'j' => {
                let index = self.bytes.u32()?;
                self.get(index)
            }
            b'c' => self.global(),
            b'R' => self.reduce(),
            b'b' => self.build(),
            b'Q' => self.pop().and_then(|id| self.push(PickleValue::Persistent(id))),
            _ => Err(self.unsupported(code)),
        }
    }

    fn stop(mut self) -> Result<(Pickle, u64), ImportError> {
        self.pickle.root = self.pop()?;
        for (left, what) in [(self.stack.len(), "values on the stack"), (self.marks.len(), "open marks")] {
            if left > 0 {
                return Err(ImportError::PickleLeftover { offset: self.offset, left: left as u64, what });
            }
        }
        Ok((self.pickle, self.bytes.offset()))
    }

    // The stack.

    pub(super) fn push(&mut self, value: PickleValue) -> PickleStep {
        self.charge(1)?;
        self.stack.push(Id(self.pickle.values.len() as u32));
        self.pickle.values.push(value);
        Ok(())
    }

    /// Values and items share one budget, so that memory is bounded whatever they are made into.
    pub(super) fn charge(&mut self, items: usize) -> PickleStep {
        self.items = self.items.saturating_add(items as u64);
        if self.items > MAX_ITEMS { Err(self.limit("values", MAX_ITEMS)) } else { Ok(()) }
    }

    pub(super) fn pop(&mut self) -> Result<Id, ImportError> {
        self.above_mark(1)?;
        self.stack.pop().ok_or_else(|| self.underflow())
    }

    pub(super) fn pop_many(&mut self, count: usize) -> Result<Vec<Id>, ImportError> {
        let from = self.above_mark(count)?;
        Ok(self.stack.split_off(from))
    }

    /// Where the top `count` values begin; values below the last mark are out of reach.
    fn above_mark(&self, count: usize) -> Result<usize, ImportError> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.len().checked_sub(count) {
            Some(from) if from >= floor => Ok(from),
            _ => Err(self.underflow()),
        }
    }

    fn mark(&mut self) -> PickleStep {
        if self.marks.len() >= MAX_MARKS {
            return Err(self.limit("open marks", MAX_MARKS as u64));
        }
        self.marks.push(self.stack.len());
        Ok(())
    }

    fn pop_mark(&mut self) -> Result<Vec<Id>, ImportError> {
        match self.marks.pop() {
            Some(height) if height <= self.stack.len() => Ok(self.stack.split_off(height)),
            _ => Err(ImportError::PickleNoMark { offset: self.offset, opcode: self.opcode }),
        }
    }

    pub(super) fn top(&self) -> Result<Id, ImportError> {
        self.above_mark(1)?;
        self.stack.last().copied().ok_or_else(|| self.underflow())
    }

    // The memo.

    fn put(&mut self, index: u32) -> PickleStep {
        let top = self.top()?;
        self.memo.insert(index, top);
        if self.memo.len() > MAX_MEMO { Err(self.limit("memo slots", MAX_MEMO as u64)) } else { Ok(()) }
    }

    fn get(&mut self, index: u32) -> PickleStep {
        let (offset, opcode) = (self.offset, self.opcode);
        let id = *self.memo.get(&index).ok_or(ImportError::PickleMemo { offset, opcode, index })?;
        self.stack.push(id);
        Ok(())
    }

    // Scalars.

    fn long1(&mut self) -> PickleStep {
        let length = self.bytes.u8()?;
        if length > 8 {
            return Err(ImportError::PickleLong { offset: self.offset, opcode: self.opcode, bytes: length.into() });
        }
        let digits = self.bytes.take(length.into())?;
        let sign = if digits.last().is_some_and(|&byte| byte >= 0x80) { -1 } else { 0 };
        self.push(PickleValue::Int(digits.iter().rev().fold(sign, |value, &byte| (value << 8) | i64::from(byte))))
    }

    fn text(&mut self) -> PickleStep {
        let length = self.bytes.u32()?;
        if length > MAX_TEXT {
            return Err(self.limit("bytes in a string", MAX_TEXT.into()));
        }
        let text = self.bytes.take(length.into())?;
        let text = std::str::from_utf8(text).map_err(|_| ImportError::PickleText { offset: self.offset })?;
        self.push(PickleValue::Text(text.into()))
    }

    fn global(&mut self) -> PickleStep {
        let module = String::from_utf8_lossy(self.bytes.line(LONGEST_GLOBAL)?);
        let name = String::from_utf8_lossy(self.bytes.line(LONGEST_GLOBAL)?);
        let global = Global::find(&module, &name).ok_or_else(|| ImportError::PickleGlobal {
            offset: self.offset,
            name: quote(&format!("{module}.{name}")),
        })?;
        self.push(PickleValue::Global(global))
    }

    // Errors.

    fn unsupported(&self, code: u8) -> ImportError {
        let name = opcode::name(code).map_or_else(|| format!("0x{code:02x} (unknown)"), str::to_string);
        ImportError::PickleOpcode { offset: self.offset, name }
    }

    fn underflow(&self) -> ImportError {
        ImportError::PickleUnderflow { offset: self.offset, opcode: self.opcode }
    }

    pub(super) fn operand(&self, expected: &'static str, found: &'static str) -> ImportError {
        ImportError::PickleOperand { offset: self.offset, opcode: self.opcode, expected, found }
    }

    fn limit(&self, what: &'static str, limit: u64) -> ImportError {
        ImportError::PickleLimit { offset: self.offset, what, limit }
    }
}
