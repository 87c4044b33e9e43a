//! Errors of the library as Python exceptions.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use softdiff::hint::explain;
use std::error::Error as StdError;

create_exception!(
    softdiff,
    Error,
    PyException,
    "What softdiff could not do. The message says what is wrong; `hint` says what to do about it, or is None."
);

/// The exception of an error of the library.
pub fn raised(error: impl StdError + 'static) -> PyErr {
    let (problem, hint) = explain(&error);
    with_hint(&problem, hint.as_deref())
}

/// An exception with a message and what to do.
pub fn with_hint(problem: &str, hint: Option<&str>) -> PyErr {
    let hint = hint.map(in_python);
    let message = match &hint {
        Some(hint) => format!("{problem}\nhint: {hint}"),
        None => problem.to_owned(),
    };
    Python::attach(|py| {
        let error = Error::new_err(message);
        match error.value(py).setattr("hint", hint) {
            Ok(()) => error,
            Err(error) => error,
        }
    })
}

/// A hint with the flags of the command line written as Python's arguments: `--level 2` becomes `level=2`, and
/// `--set train.recompute=true` becomes `set={"train.recompute": "true"}`. `softdiff data fetch cifar10` becomes a call of `fetch`.
fn in_python(hint: &str) -> String {
    if let Some(rest) = hint.strip_prefix("softdiff data fetch ") {
        let (name, rest) =
            rest.split_at(rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len()));
        return format!("softdiff.fetch(\"{name}\"){}", in_python(rest));
    }
    let mut words = hint.split(' ').peekable();
    let mut out = Vec::new();
    while let Some(word) = words.next() {
        let (flag, rest) = match word.strip_prefix("--") {
            Some(flag) => flag.split_at(flag.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(flag.len())),
            None => {
                out.push(word.to_owned());
                continue;
            }
        };
        let value = match rest.is_empty() {
            true => words.next_if(|next| flag == "set" || next.starts_with(|c: char| c.is_ascii_digit())),
            false => None,
        };
        let flag = flag.replace('-', "_");
        out.push(match value.map(|value| (value, value.split_once('='))) {
            Some((_, Some((key, value)))) if flag == "set" => {
                let end = value.find([',', ';']).unwrap_or(value.len());
                format!("set={{\"{key}\": \"{}\"}}{}", &value[..end], &value[end..])
            }
            Some((value, _)) => format!("{flag}={value}"),
            None => format!("{flag}={rest}"),
        });
    }
    out.join(" ")
}
