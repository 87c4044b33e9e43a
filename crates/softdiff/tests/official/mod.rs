//! The closed-form tensors of `golden/ncsnpp/README.md`, and a reader of the golden files.
#![allow(dead_code)]

use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::path::PathBuf;

/// A file of the golden set.
pub fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/ncsnpp").join(name)
}

pub fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// u(N, i) for i < n: uniform in [0, 1).
pub fn unit(name: &str, n: usize) -> impl Iterator<Item = f64> + use<> {
    let base = u64::from(crc32(name.as_bytes())) << 32;
    (0..n as u64).map(move |i| {
        let z = base.wrapping_add(i).wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    })
}

/// v(N, i) = 2 u - 1.
pub fn signed(name: &str, n: usize) -> impl Iterator<Item = f64> + use<> {
    unit(name, n).map(|u| 2.0 * u - 1.0)
}

/// The closed-form weight of that name and shape, rounded to f32.
pub fn weight(name: &str, shape: &[usize]) -> Vec<f32> {
    let last = name.rsplit('.').next().unwrap();
    let n = shape.iter().product();
    let (scale, shift) = match (last, shape) {
        ("bias" | "b", _) => (0.1, 0.0),
        ("W", [_]) => (16.0, 0.0),
        ("W", [inputs, _]) => ((3.0 / *inputs as f64).sqrt(), 0.0),
        (_, [_]) => (0.1, 1.0),
        (_, [_, rest @ ..]) => ((3.0 / rest.iter().product::<usize>() as f64).sqrt(), 0.0),
        _ => unreachable!(),
    };
    signed(name, n).map(|v| if shift == 0.0 { (v * scale) as f32 } else { (shift + scale * v) as f32 }).collect()
}

/// A golden `.safetensors` with its `.json`.
pub struct Golden {
    pub bytes: Vec<u8>,
    pub json: Value,
}

impl Golden {
    pub fn read(name: &str) -> Golden {
        let bytes = std::fs::read(golden(&format!("{name}.safetensors"))).unwrap();
        let json = std::fs::read_to_string(golden(&format!("{name}.json"))).unwrap_or("null".into());
        Golden { bytes, json: serde_json::from_str(&json).unwrap() }
    }

    /// Shape and values of a tensor, widened to f64.
    pub fn tensor(&self, name: &str) -> Option<(Vec<usize>, Vec<f64>)> {
        let file = SafeTensors::deserialize(&self.bytes).unwrap();
        let tensor = file.tensor(name).ok()?;
        let data = tensor.data();
        let values = match tensor.dtype() {
            Dtype::F32 => data.as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect(),
            Dtype::F64 => data.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
            Dtype::I64 => data.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b) as f64).collect(),
            other => panic!("{other:?}"),
        };
        Some((tensor.shape().to_vec(), values))
    }

    pub fn values(&self, name: &str) -> Vec<f64> {
        self.tensor(name).unwrap_or_else(|| panic!("no tensor {name}")).1
    }
}

/// [n, c, h, w] to [n, h, w, c].
pub fn nhwc<T: Copy>(x: &[T], shape: &[usize]) -> Vec<T> {
    let (c, pixels) = (shape[1], shape[2] * shape[3]);
    (0..x.len()).map(|i| x[i / (c * pixels) * c * pixels + i % c * pixels + i / c % pixels]).collect()
}

/// ||a - b|| / ||b||.
pub fn relative(a: impl IntoIterator<Item = f64>, b: &[f64]) -> f64 {
    let norm = b.iter().map(|b| b * b).sum::<f64>().sqrt();
    distance(a, b) / norm.max(1e-300)
}

pub fn distance(a: impl IntoIterator<Item = f64>, b: &[f64]) -> f64 {
    a.into_iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}
