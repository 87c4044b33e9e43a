//! Why a file was refused: each message names the part of the file and what was expected there.

use crate::archive::ArchiveError;
use softdiff_data::bytes::BytesError;
use std::path::PathBuf;
use thiserror::Error;

/// A file that cannot be imported.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The fields are named as the messages use them.
pub enum ImportError {
    /// The operating system could not read the file.
    #[error("cannot read {}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// The file is longer than the reader accepts.
    #[error("the file has {bytes} bytes, more than the limit of {limit}")]
    FileTooLarge { bytes: u64, limit: u64 },
    /// A part of the file ends too soon.
    #[error("{0}")]
    Bytes(#[from] BytesError),
    /// The archive is not as it should be.
    #[error("{0}")]
    Archive(#[from] ArchiveError),

    /// A file of other software.
    #[error("this is {software}, which cannot be imported")]
    Foreign { software: &'static str },
    /// A checkpoint of torch before 1.6.
    #[error("a torch checkpoint in the old format (before torch 1.6), expected a zip archive")]
    LegacyTorch,
    /// More than one pickle.
    #[error("the archive has two pickles, {first} and {second}; expected one")]
    TwoPickles { first: String, second: String },
    /// The numbers are not little-endian.
    #[error("{part}: byte order {found}, expected little-endian")]
    ByteOrder { part: String, found: String },

    /// The pickle is of an unknown protocol.
    #[error("pickle: protocol {found}, expected 2")]
    PickleProtocol { found: u8 },
    /// An opcode that no checkpoint needs.
    #[error("pickle: opcode {name} at offset {offset} is not supported")]
    PickleOpcode { offset: u64, name: String },
    /// A function or class outside the fixed list.
    #[error("pickle: {name} at offset {offset} is not on the list of allowed names")]
    PickleGlobal { offset: u64, name: String },
    /// An opcode found too few values.
    #[error("pickle: {opcode} at offset {offset}: the stack is empty")]
    PickleUnderflow { offset: u64, opcode: &'static str },
    /// An opcode found no mark.
    #[error("pickle: {opcode} at offset {offset}: no MARK before it")]
    PickleNoMark { offset: u64, opcode: &'static str },
    /// An opcode was applied to the wrong kind of value.
    #[error("pickle: {opcode} at offset {offset}: expected {expected}, found {found}")]
    PickleOperand { offset: u64, opcode: &'static str, expected: &'static str, found: &'static str },
    /// A memo index that was never written.
    #[error("pickle: {opcode} at offset {offset}: memo {index} was never stored")]
    PickleMemo { offset: u64, opcode: &'static str, index: u32 },
    /// Text that is not UTF-8.
    #[error("pickle: the text at offset {offset} is not UTF-8")]
    PickleText { offset: u64 },
    /// An integer of more than 64 bits.
    #[error("pickle: {opcode} at offset {offset}: an integer of {bytes} bytes, expected at most 8")]
    PickleLong { offset: u64, opcode: &'static str, bytes: u64 },
    /// One of the interpreter's limits.
    #[error("pickle: more than {limit} {what} at offset {offset}")]
    PickleLimit { offset: u64, what: &'static str, limit: u64 },
    /// The pickle goes on after its end, or ends with values to spare.
    #[error("pickle: STOP at offset {offset} leaves {left} {what}, expected none")]
    PickleLeftover { offset: u64, left: u64, what: &'static str },

    /// A dictionary lacks a key.
    #[error("{place} has no key {key}")]
    MissingKey { place: String, key: String },
    /// A value is of the wrong kind.
    #[error("{place}: expected {expected}, found {found}")]
    WrongType { place: String, expected: &'static str, found: &'static str },
    /// A number makes no sense where it stands.
    #[error("{place} is {value}, expected {expected}")]
    OutOfRange { place: String, value: f64, expected: &'static str },
    /// A list has the wrong length.
    #[error("{place} has {found} items, expected {expected}")]
    Count { place: String, expected: String, found: usize },

    /// A storage is not as long as the pickle says.
    #[error("{place}: storage {key} has {found} bytes, expected {expected}")]
    StorageLength { place: String, key: String, expected: String, found: u64 },
    /// A tensor reaches beyond its storage.
    #[error("{place}: offset, size and stride reach element {last} of storage {key}, which has {elements}")]
    TensorRange { place: String, key: String, last: u64, elements: u64 },
    /// Sizes or strides whose product does not fit in 64 bits.
    #[error("{place}: {what} of the tensor overflows")]
    TensorOverflow { place: String, what: &'static str },
    /// The tensors of this file would need more memory than the file justifies.
    #[error("{place}: the tensors read so far would need {bytes} bytes, more than the limit of {limit} for this file")]
    TensorBudget { place: String, bytes: u64, limit: u64 },
    /// A weight that is not a floating-point tensor.
    #[error("{place}: a tensor of {found}, expected floating point")]
    NotFloat { place: String, found: &'static str },

    /// A tensor does not have the shape of the parameter it belongs to.
    #[error("{place} has shape {found:?}, expected {expected:?} of {parameter}")]
    Shape { parameter: String, place: String, expected: Vec<usize>, found: Vec<usize> },
    /// A weight is NaN or infinite.
    #[error("{place}: element {index} of {parameter} is {value}, expected a finite number")]
    NonFinite { parameter: String, place: String, index: usize, value: f32 },
    /// A name that is no parameter of a score_sde network.
    #[error("model: unknown entry {name}, expected sigmas or all_modules.*")]
    UnknownParameter { name: String },
    /// Two entries of the model have one name once `module.` is removed.
    #[error("model: parameter {name} appears twice")]
    DuplicateParameter { name: String },
}
