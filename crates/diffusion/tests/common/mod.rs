//! What several tests read: goldens and pictures.
#![allow(dead_code, reason = "each test uses a part")]

use safetensors::{Dtype, SafeTensors};
use softdiff_diffusion::corruption::Shape;
use softdiff_diffusion::linalg::Matrix;
use std::path::PathBuf;

/// Shape of a CIFAR-10 picture.
pub const CIFAR: Shape = Shape { height: 32, width: 32, channels: 3 };

/// Bytes of one CIFAR-10 record: the label, then 1024 red, green and blue values.
const RECORD: usize = 3073;

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

/// [3, H, W] to [H, W, 3].
pub fn interleaved(planes: &[f64], pixels: usize) -> Vec<f64> {
    (0..planes.len()).map(|i| planes[i % 3 * pixels + i / 3]).collect()
}

/// Pictures A and B of the transport goldens, as rows of values in [0, 1].
pub fn pictures_of_the_transport_goldens(n: usize) -> [Matrix; 2] {
    if n == 128 {
        let bytes = std::fs::read(golden("cifar10-test-256.bin")).unwrap();
        [pictures(&bytes, 0, 128), pictures(&bytes, 128, 128)]
    } else {
        let folder = std::env::var("SOFTDIFF_CIFAR10").expect("set SOFTDIFF_CIFAR10 to cifar-10-batches-bin");
        let bytes = std::fs::read(PathBuf::from(folder).join("test_batch.bin")).unwrap();
        [pictures(&bytes, 0, n), pictures(&bytes, 256, n)]
    }
}

fn pictures(bytes: &[u8], first: usize, count: usize) -> Matrix {
    let mut values = Vec::with_capacity(count * CIFAR.len());
    for record in bytes.chunks_exact(RECORD).skip(first).take(count) {
        let planes: Vec<f64> = record[1..].iter().map(|&b| f64::from(b) / 255.0).collect();
        values.extend(interleaved(&planes, CIFAR.pixels()));
    }
    Matrix::from_vec(count, CIFAR.len(), values).unwrap()
}

/// Numbers of a JSON list.
pub fn numbers(value: &serde_json::Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}
