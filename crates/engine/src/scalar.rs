//! The two element types of the CPU backend: `f32` to work with, `f64` to prove with.

use crate::cpu::tile::Tiles;
use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

/// An element type that every kernel is written for.
pub trait Scalar:
    Copy
    + Send
    + Sync
    + Default
    + PartialEq
    + PartialOrd
    + Debug
    + Display
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + Sum
    + Tiles
    + 'static
{
    /// `f32` or `f64`.
    const NAME: &'static str;
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Rounds to this type.
    fn from_f64(value: f64) -> Self;
    /// Widens exactly.
    fn to_f64(self) -> f64;
    /// e to the power of `self`; vectorises in `f32`. NaN stays NaN.
    fn exp(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// Sine.
    fn sin(self) -> Self;
    /// Cosine.
    fn cos(self) -> Self;
    /// Whether the value is neither NaN nor infinite.
    fn is_finite(self) -> bool;

    /// 1 / (1 + e^-x).
    #[inline(always)]
    fn sigmoid(self) -> Self {
        Self::ONE / (Self::ONE + (-self).exp())
    }
}

impl Scalar for f64 {
    const NAME: &'static str = "f64";
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    #[inline(always)]
    fn from_f64(value: f64) -> f64 {
        value
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    fn exp(self) -> f64 {
        f64::exp(self)
    }
    fn ln(self) -> f64 {
        f64::ln(self)
    }
    #[inline(always)]
    fn sqrt(self) -> f64 {
        f64::sqrt(self)
    }
    fn sin(self) -> f64 {
        f64::sin(self)
    }
    fn cos(self) -> f64 {
        f64::cos(self)
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        f64::is_finite(self)
    }
}

impl Scalar for f32 {
    const NAME: &'static str = "f32";
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    #[inline(always)]
    fn from_f64(value: f64) -> f32 {
        value as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    /// Cephes' `expf`: reduce to |r| <= ln(2)/2, degree-6 polynomial, scale by 2^n through the exponent bits.
    /// Within 2 ulp; written without branches or calls so that loops over it vectorise.
    #[inline(always)]
    fn exp(self) -> f32 {
        // Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low mantissa bits.
        const ROUND: f32 = 12_582_912.0;
        // Comparisons this way round keep NaN.
        let x = if self > 88.3 { 88.3 } else { self };
        let x = if x < -87.3 { -87.3 } else { x };
        let shifted = x * std::f32::consts::LOG2_E + ROUND;
        let n = shifted - ROUND;
        let r = x - n * 0.693_359_4;
        let r = r - n * -2.121_944_4e-4;
        let p = 1.987_569_1e-4;
        let p = p * r + 1.398_199_9e-3;
        let p = p * r + 8.333_452e-3;
        let p = p * r + 4.166_579_6e-2;
        let p = p * r + 1.666_666_5e-1;
        let p = p * r + 5e-1;
        let p = p * (r * r) + r + 1.0;
        p * f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23))
    }
    fn ln(self) -> f32 {
        f32::ln(self)
    }
    #[inline(always)]
    fn sqrt(self) -> f32 {
        f32::sqrt(self)
    }
    fn sin(self) -> f32 {
        f32::sin(self)
    }
    fn cos(self) -> f32 {
        f32::cos(self)
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        f32::is_finite(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectorised_exponential_is_within_two_units_in_the_last_place() {
        for i in -870_000..880_000 {
            let x = i as f32 * 1e-4;
            let exact = f64::from(x).exp();
            let error = (f64::from(Scalar::exp(x)) - exact).abs() / exact;
            assert!(error < 2.4e-7, "exp({x}) is off by {error:e}");
        }
    }

    #[test]
    fn the_vectorised_exponential_saturates_and_keeps_nan() {
        assert!(Scalar::exp(f32::NAN).is_nan());
        assert!(Scalar::exp(1000.0f32).is_finite());
        assert!(Scalar::exp(-1000.0f32) < 1.3e-38);
    }
}
