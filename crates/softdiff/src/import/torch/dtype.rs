//! The number formats of torch storages, and the three that are kept after reading.

/// How a storage holds its numbers; all little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names say it all.
pub enum DType {
    F64,
    F32,
    F16,
    BF16,
    I64,
    I32,
    I16,
    I8,
    U8,
    Bool,
}

impl DType {
    /// The format of a storage class of the module `torch`.
    pub fn of_storage(class: &str) -> Option<DType> {
        Some(match class {
            "DoubleStorage" => DType::F64,
            "FloatStorage" => DType::F32,
            "HalfStorage" => DType::F16,
            "BFloat16Storage" => DType::BF16,
            "LongStorage" => DType::I64,
            "IntStorage" => DType::I32,
            "ShortStorage" => DType::I16,
            "CharStorage" => DType::I8,
            "ByteStorage" => DType::U8,
            "BoolStorage" => DType::Bool,
            _ => return None,
        })
    }

    /// The name as torch prints it.
    pub fn name(self) -> &'static str {
        match self {
            DType::F64 => "float64",
            DType::F32 => "float32",
            DType::F16 => "float16",
            DType::BF16 => "bfloat16",
            DType::I64 => "int64",
            DType::I32 => "int32",
            DType::I16 => "int16",
            DType::I8 => "int8",
            DType::U8 => "uint8",
            DType::Bool => "bool",
        }
    }

    /// Bytes per number in the file.
    pub fn bytes(self) -> usize {
        match self {
            DType::F64 | DType::I64 => 8,
            DType::F32 | DType::I32 => 4,
            DType::F16 | DType::BF16 | DType::I16 => 2,
            DType::I8 | DType::U8 | DType::Bool => 1,
        }
    }

    /// Bytes per number once read.
    pub fn wide_bytes(self) -> u64 {
        match self {
            DType::F32 | DType::F16 | DType::BF16 => 4,
            _ => 8,
        }
    }

    /// Whether weights may have this format.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F64 | DType::F32 | DType::F16 | DType::BF16)
    }

    /// Reads packed numbers; each fits its wide format exactly.
    pub(super) fn widen(self, bytes: &[u8]) -> Numbers {
        fn each<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
            bytes.as_chunks::<N>().0.iter().map(|chunk| read(*chunk)).collect()
        }
        match self {
            DType::F64 => Numbers::F64(each(bytes, f64::from_le_bytes)),
            DType::F32 => Numbers::F32(each(bytes, f32::from_le_bytes)),
            DType::F16 => Numbers::F32(each(bytes, |b| f32_from_f16(u16::from_le_bytes(b)))),
            DType::BF16 => Numbers::F32(each(bytes, |[low, high]| f32::from_le_bytes([0, 0, low, high]))),
            DType::I64 => Numbers::I64(each(bytes, i64::from_le_bytes)),
            DType::I32 => Numbers::I64(each(bytes, |b| i32::from_le_bytes(b).into())),
            DType::I16 => Numbers::I64(each(bytes, |b| i16::from_le_bytes(b).into())),
            DType::I8 => Numbers::I64(each(bytes, |b| i8::from_le_bytes(b).into())),
            DType::U8 => Numbers::I64(each(bytes, |[byte]| byte.into())),
            DType::Bool => Numbers::I64(each(bytes, |[byte]| (byte != 0).into())),
        }
    }
}

/// The numbers of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// From float32, float16 and bfloat16.
    F32(Vec<f32>),
    /// From float64.
    F64(Vec<f64>),
    /// From integers and booleans.
    I64(Vec<i64>),
}

impl Numbers {
    /// Rounded to single precision where that is needed.
    pub fn into_f32(self) -> Vec<f32> {
        match self {
            Numbers::F32(values) => values,
            Numbers::F64(values) => values.into_iter().map(|value| value as f32).collect(),
            Numbers::I64(values) => values.into_iter().map(|value| value as f32).collect(),
        }
    }

    /// Exact for all but integers beyond 2^53.
    pub fn into_f64(self) -> Vec<f64> {
        match self {
            Numbers::F32(values) => values.into_iter().map(f64::from).collect(),
            Numbers::F64(values) => values,
            Numbers::I64(values) => values.into_iter().map(|value| value as f64).collect(),
        }
    }
}

/// IEEE 754 binary16: sign, 5 bits of exponent (bias 15), 10 bits of fraction.
fn f32_from_f16(half: u16) -> f32 {
    let sign = if half >> 15 == 1 { -1.0 } else { 1.0 };
    let fraction = f32::from(half & 0x3FF);
    sign * match (half >> 10) & 0x1F {
        0 => fraction * f32::powi(2.0, -24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        exponent => (1024.0 + fraction) * f32::powi(2.0, i32::from(exponent) - 25),
    }
}

#[cfg(test)]
mod tests {
    use super::f32_from_f16;

    #[test]
    fn halves_widen_to_known_values() {
        for (half, value) in [
            (0x0000, 0.0),
            (0x3C00, 1.0),
            (0xC000, -2.0),
            (0x3555, 0.333_251_95),
            (0x7BFF, 65504.0),
            (0x0400, 6.103_515_6e-5),
            (0x0001, 5.960_464_5e-8),
            (0xFC00, f32::NEG_INFINITY),
        ] {
            assert_eq!(f32_from_f16(half), value, "{half:04x}");
        }
        assert!(f32_from_f16(0x8000).is_sign_negative());
        assert!(f32_from_f16(0x7E00).is_nan());
    }
}
