//! Single numbers in a checkpoint: Python's own, numpy scalars (`lr` is one), and tensors of one element.
//!
//! A pickled numpy scalar is `scalar(dtype("f8", …) with state (3, "<", …), encode("…", "latin1"))`.

use super::ImportError;
use super::pickle::{Global, PickleNode, PickleValue};
use super::torch::TorchFile;
use softdiff_data::quote::quote;

/// 2^53: up to here every integer is a double.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A finite number.
pub(super) fn number(file: &TorchFile, node: &PickleNode) -> Result<f64, ImportError> {
    let value = match node.value() {
        PickleValue::Int(value) => *value as f64,
        PickleValue::Float(value) => *value,
        PickleValue::Call { function: Global::NumpyScalar, arguments, .. } => scalar(&node.at(*arguments))?,
        PickleValue::Call { function: Global::RebuildTensor | Global::RebuildParameter, .. } => {
            match *file.tensor(node)?.data.into_f64() {
                [value] => value,
                ref values => {
                    let expected = "1 number".into();
                    return Err(ImportError::Count { place: node.place(), expected, found: values.len() });
                }
            }
        }
        _ => return Err(node.wrong("a number")),
    };
    if value.is_finite() { Ok(value) } else { Err(out_of_range(node, value, "a finite number")) }
}

/// A number of something: whole and at least 0.
pub(super) fn whole(file: &TorchFile, node: &PickleNode) -> Result<u64, ImportError> {
    let value = number(file, node)?;
    if value.fract() == 0.0 && (0.0..=EXACT).contains(&value) {
        Ok(value as u64)
    } else {
        Err(out_of_range(node, value, "a whole number of at least 0"))
    }
}

fn out_of_range(node: &PickleNode, value: f64, expected: &'static str) -> ImportError {
    ImportError::OutOfRange { place: node.place(), value, expected }
}

fn scalar(arguments: &PickleNode) -> Result<f64, ImportError> {
    let [dtype, content] = arguments.tuple("the arguments of a numpy scalar")?;
    let format = format(&dtype)?;
    let bytes = latin1_bytes(&content)?;
    let value = match format {
        "f8" => bytes.as_slice().try_into().ok().map(f64::from_le_bytes),
        "f4" => bytes.as_slice().try_into().ok().map(|bytes| f32::from_le_bytes(bytes).into()),
        "i8" => bytes.as_slice().try_into().ok().map(|bytes| i64::from_le_bytes(bytes) as f64),
        "i4" => bytes.as_slice().try_into().ok().map(|bytes| i32::from_le_bytes(bytes).into()),
        _ => return Err(dtype.wrong("a numpy dtype f8, f4, i8 or i4")),
    };
    value.ok_or_else(|| ImportError::Count {
        place: content.place(),
        expected: format!("the bytes of one {format}"),
        found: bytes.len(),
    })
}

/// The format code of a little-endian dtype.
fn format<'a>(dtype: &PickleNode<'a>) -> Result<&'a str, ImportError> {
    let &PickleValue::Call { function: Global::NumpyDtype, arguments, state: Some(state) } = dtype.value() else {
        return Err(dtype.wrong("a numpy dtype"));
    };
    let [_version, order] = dtype.at(state).tuple("the state of a numpy dtype")?;
    if !matches!(order.text()?, "<" | "=" | "|") {
        return Err(ImportError::ByteOrder { part: dtype.place(), found: quote(order.text()?) });
    }
    let [format] = dtype.at(arguments).tuple("the arguments of a numpy dtype")?;
    format.text()
}

/// Protocol 2 has no bytes, so Python writes them as text of code points below 256.
fn latin1_bytes(node: &PickleNode) -> Result<Vec<u8>, ImportError> {
    let &PickleValue::Call { function: Global::Encode, arguments, .. } = node.value() else {
        return Err(node.wrong("encoded bytes"));
    };
    let [text, encoding] = node.at(arguments).tuple("the arguments of encode")?;
    if encoding.text()? != "latin1" {
        return Err(encoding.wrong("the encoding latin1"));
    }
    text.text()?.chars().map(|c| u8::try_from(c).map_err(|_| text.wrong("text in latin1"))).collect()
}
