//! What to do about an error.

use crate::Error;
use std::borrow::Cow;

/// An error that knows its remedy. Its message says what is wrong, and nothing about what to do.
pub trait Hint {
    /// What to do about it, where that is known.
    fn hint(&self) -> Option<Cow<'_, str>>;
}

impl Hint for Error {
    fn hint(&self) -> Option<Cow<'_, str>> {
        match self {
            Error::Device { hint, .. } => Some(hint.into()),
            Error::Memory { .. } => Some("use a smaller batch, or free the GPU (nvidia-smi shows who uses it)".into()),
            _ => None,
        }
    }
}
