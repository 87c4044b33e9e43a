//! exp over whole slices, written so that the compiler vectorises it.

use std::f64::consts::LOG2_E;

/// 1.5 * 2^52: adding it leaves the nearest whole number in the low bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// ln 2 in two parts, the first exact when multiplied by a small whole number.
const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Below this the result would leave the normal numbers; it is taken as zero.
const LOWEST: f64 = -708.0;
/// 1/2!, 1/3!, ... 1/13!.
const COEFFICIENTS: [f64; 12] = [
    1.0 / 2.0,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5_040.0,
    1.0 / 40_320.0,
    1.0 / 362_880.0,
    1.0 / 3_628_800.0,
    1.0 / 39_916_800.0,
    1.0 / 479_001_600.0,
    1.0 / 6_227_020_800.0,
];

/// e^x to two units in the last place for x in [-708, 709]; zero below.
#[inline]
pub(super) fn exponential(x: f64) -> f64 {
    let shifted = x * LOG2_E + ROUNDER;
    let whole = shifted - ROUNDER;
    let r = (x - whole * LN_2_HIGH) - whole * LN_2_LOW;
    let series = COEFFICIENTS.iter().rev().fold(0.0, |sum, c| sum * r + c);
    let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1f64.to_bits()));
    let value = power + power * (r + r * r * series);
    if x < LOWEST { 0.0 } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_agrees_with_the_standard_one_to_two_units_in_the_last_place() {
        for i in -70_800..=70_000 {
            let x = i as f64 * 0.01 + 0.001;
            let (found, expected) = (exponential(x), x.exp());
            assert!((found - expected).abs() <= 2.0 * f64::EPSILON * expected, "exp({x}) = {found}, not {expected}");
        }
        assert_eq!((exponential(0.0), exponential(-1e6)), (1.0, 0.0));
    }
}
