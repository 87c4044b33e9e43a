//! The precision of a computation.

use crate::Storage;

/// The precision of a computation on a GPU; the CPU computes in f32 whatever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// f32 throughout, without rounding to TF32.
    F32,
    /// Stored in f32, and as accurate; in convolutions on tensor cores a number is the sum of two f16. Images beyond 65504
    /// and weights beyond 1023 give NaN.
    F16x2,
    /// f32 in memory, TF32 in convolutions and matrix products.
    Tf32,
    /// Activations in bf16, sums and parameters in f32.
    Bf16,
}

impl Precision {
    /// Whether a tensor is stored in bf16.
    pub(crate) fn half(self, storage: Storage) -> bool {
        self == Precision::Bf16 && storage == Storage::Half
    }

    /// Whether f32 may be rounded to TF32.
    pub(crate) fn tf32(self) -> bool {
        matches!(self, Precision::Tf32 | Precision::Bf16)
    }
}
