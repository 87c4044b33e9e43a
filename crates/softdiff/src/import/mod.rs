//! Weights made by other software, read without trusting the file.
//!
//! A torch checkpoint is a zip archive ([`crate::archive::zip`]) of raw numbers and one pickle ([`pickle`]) that says which numbers are
//! which. [`torch`] turns the two into tensors, and [`score_sde`] gives them the names of the official NCSN++ code.
//!
//! Promise: no file can run code, panic, overflow the stack, or make the reader hold more than the limits below.
//!
//! | limit | value | where |
//! |---|---|---|
//! | file | 4 GiB | [`MAX_FILE_BYTES`] |
//! | zip entries | 65 536 | [`torch`] |
//! | pickle: bytes, opcodes, items, open marks | 16 MiB, 2^22, 2^19, 64 | [`pickle`] |
//! | tensors of one file, all together | twice the file, at least 1 MiB | [`torch::MAX_EXPANSION`] |

mod convert;
mod error;
pub(crate) mod foreign;
mod numpy;
pub mod pickle;
mod safetensors_file;
pub mod score_sde;
pub mod torch;
mod torch_writer;
mod training;

pub use convert::{ConversionError, ConversionOptions, ConvertedCheckpoint, ImportedWeights};
pub use error::ImportError;
pub use safetensors_file::write_safetensors;
pub use score_sde::ScoreSdeCheckpoint;
pub use torch_writer::{TorchNumbers, TorchValue, write_torch};
pub use training::{TrainingFile, TrainingFileError};

use softdiff_engine::shared_bytes::{SharedBytes, SharedBytesError};
use std::path::Path;

/// The longest file that is read: four times a full NCSN++ checkpoint with its optimizer.
pub const MAX_FILE_BYTES: u64 = 4 << 30;

/// A whole file after looking at its length; a long one is mapped and not read.
pub fn read_file(path: &Path) -> Result<SharedBytes, ImportError> {
    let unreadable = |source| ImportError::Io { path: path.into(), source };
    let file = softdiff_engine::regular_file::open(path).map_err(unreadable)?;
    let length = file.metadata().map_err(unreadable)?.len();
    if length > MAX_FILE_BYTES {
        return Err(ImportError::FileTooLarge { bytes: length, limit: MAX_FILE_BYTES });
    }
    let bytes = SharedBytes::open(path).map_err(|error| match error {
        SharedBytesError::Io(error) => unreadable(error),
        SharedBytesError::Memory(error) => unreadable(std::io::Error::other(error)),
    })?;
    // The length is only a promise: a file may grow.
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(ImportError::FileTooLarge { bytes: bytes.len() as u64, limit: MAX_FILE_BYTES });
    }
    Ok(bytes)
}
