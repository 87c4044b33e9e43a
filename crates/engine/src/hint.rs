//! What to do about an error.

use crate::{Error, ReadError};
use std::borrow::Cow;

/// An error that knows its remedy. Its message says what is wrong, and nothing about what to do.
pub trait Hint: std::error::Error {
    /// What to do about it, where that is known.
    fn hint(&self) -> Option<Cow<'_, str>>;

    /// The message and the hint, for text in which the hint has no line of its own.
    fn in_full(&self) -> String {
        match self.hint() {
            Some(hint) => format!("{self}; {hint}"),
            None => self.to_string(),
        }
    }
}

/// What is wrong, and what to do about it where that is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HintedMessage {
    message: String,
    hint: Option<String>,
}

impl HintedMessage {
    /// A message and what to do.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        HintedMessage { message: message.into(), hint: Some(hint.into()) }
    }

    /// The message and the hint of another error.
    pub fn of(error: impl Hint) -> Self {
        HintedMessage { message: error.to_string(), hint: error.hint().map(Cow::into_owned) }
    }

    /// The same, of a part of something.
    pub fn at(self, part: &str) -> Self {
        HintedMessage { message: format!("{part}: {}", self.message), ..self }
    }
}

impl From<String> for HintedMessage {
    fn from(message: String) -> Self {
        HintedMessage { message, hint: None }
    }
}

impl From<&str> for HintedMessage {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

impl Hint for HintedMessage {
    fn hint(&self) -> Option<Cow<'_, str>> {
        self.hint.as_deref().map(Cow::from)
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<Cow<'_, str>> {
        match self {
            Error::Unknown { hint, .. } => hint.as_deref().map(Cow::from),
            Error::Device { hint, .. } => Some(hint.into()),
            Error::Rank { .. } => Some("start all ranks again; training continues from the last checkpoint".into()),
            Error::Memory { .. } => Some("use a smaller batch, or free the GPU (nvidia-smi shows who uses it)".into()),
            Error::TooLarge { .. } => Some(
                "use a smaller batch (train.batch, train.accumulate, --batch), data.size or network.channels".into(),
            ),
            Error::HostMemory(error) => error.hint(),
            Error::File { problem, .. } => problem.hint(),
            _ => None,
        }
    }
}

impl Hint for ReadError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        match self {
            ReadError::Format(_) => None,
            ReadError::Engine(error) => error.hint(),
        }
    }
}
