//! What several tests read: goldens.
#![allow(dead_code, reason = "each test uses a part")]

use safetensors::{Dtype, SafeTensors};
use std::path::PathBuf;

/// A file of `tests/golden`.
pub fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// A JSON golden.
pub fn golden_json(name: &str) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(golden(name)).unwrap()).unwrap()
}

/// A tensor as f64, whatever its type.
pub fn tensor(bytes: &[u8], name: &str) -> (Vec<usize>, Vec<f64>) {
    let file = SafeTensors::deserialize(bytes).unwrap();
    let view = file.tensor(name).unwrap();
    let data = view.data();
    let values = match view.dtype() {
        Dtype::U8 => data.iter().map(|&b| f64::from(b)).collect(),
        Dtype::F16 => data.as_chunks().0.iter().map(|&b| f64_from_half(u16::from_le_bytes(b))).collect(),
        Dtype::F32 => data.as_chunks().0.iter().map(|&b| f64::from(f32::from_le_bytes(b))).collect(),
        Dtype::F64 => data.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect(),
        Dtype::I64 => data.as_chunks().0.iter().map(|&b| i64::from_le_bytes(b) as f64).collect(),
        Dtype::I32 => data.as_chunks().0.iter().map(|&b| f64::from(i32::from_le_bytes(b))).collect(),
        other => panic!("{name} is {other:?}"),
    };
    (view.shape().to_vec(), values)
}

/// The two sizes of a matrix.
pub fn shape2(bytes: &[u8], name: &str) -> [usize; 2] {
    tensor(bytes, name).0.try_into().unwrap()
}

/// IEEE 754 binary16, finite.
fn f64_from_half(half: u16) -> f64 {
    let (sign, exponent, fraction) = (half >> 15, (half >> 10) & 0x1F, f64::from(half & 0x3FF));
    let size = if exponent == 0 { fraction } else { (1024.0 + fraction) * f64::powi(2.0, i32::from(exponent) - 1) };
    size * f64::powi(2.0, -24) * if sign == 1 { -1.0 } else { 1.0 }
}
