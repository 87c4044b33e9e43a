//! Loops over `f64` slices that other crates need fast: vectorised by the compiler for the machine they run on.
//!
//! The order of every sum is fixed, so that results are the same on every instruction set.

use super::simd::vectorized;
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

/// Rows handled together, so that each load of v serves several.
pub const ROWS: usize = 4;
const LANES: usize = 8;

/// e^x to two units in the last place for x in [-708, 709]; zero below.
#[inline(always)]
pub fn exponential(x: f64) -> f64 {
    let shifted = x * LOG2_E + ROUNDER;
    let whole = shifted - ROUNDER;
    let r = (x - whole * LN_2_HIGH) - whole * LN_2_LOW;
    let series = COEFFICIENTS.iter().rev().fold(0.0, |sum, c| sum * r + c);
    let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1f64.to_bits()));
    let value = power + power * (r + r * r * series);
    if x < LOWEST { 0.0 } else { value }
}

vectorized! {
    /// `out[j] = e^((offset + g[j] - c[j]) scale)`: a row of a Gibbs kernel.
    pub fn gibbs_row(out: &mut [f64], c: &[f64], g: &[f64], offset: f64, scale: f64) {
        for ((out, c), g) in out.iter_mut().zip(c).zip(g) {
            *out = exponential((offset + g - c) * scale);
        }
    }
}

vectorized! {
    /// min over j of c_j - g_j.
    pub fn least_difference(c: &[f64], g: &[f64]) -> f64 {
        let mut least = [f64::INFINITY; LANES];
        let ((c_blocks, c_rest), (g_blocks, g_rest)) = (c.as_chunks::<LANES>(), g.as_chunks::<LANES>());
        for (c, g) in c_blocks.iter().zip(g_blocks) {
            for l in 0..LANES {
                let slack = c[l] - g[l];
                least[l] = if slack < least[l] { slack } else { least[l] };
            }
        }
        let rest = c_rest.iter().zip(g_rest).map(|(c, g)| c - g);
        least.into_iter().chain(rest).fold(f64::INFINITY, f64::min)
    }
}

vectorized! {
    /// Largest less smallest value.
    pub fn spread(values: &[f64]) -> f64 {
        let (mut least, mut most) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
        let (blocks, rest) = values.as_chunks::<LANES>();
        for block in blocks {
            for l in 0..LANES {
                least[l] = if block[l] < least[l] { block[l] } else { least[l] };
                most[l] = if block[l] > most[l] { block[l] } else { most[l] };
            }
        }
        let least = least.iter().chain(rest).copied().fold(f64::INFINITY, f64::min);
        most.iter().chain(rest).copied().fold(f64::NEG_INFINITY, f64::max) - least
    }
}

vectorized! {
    /// The inner products of four rows with the same weights.
    pub fn four_products(rows: [&[f64]; ROWS], weights: &[f64]) -> [f64; ROWS] {
        let [mut p, mut q, mut r, mut s] = [[0.0; LANES]; ROWS];
        let (blocks, rest) = weights.as_chunks::<LANES>();
        let [a, b, c, d] = rows.map(|row| row.as_chunks::<LANES>());
        for ((((w, a), b), c), d) in blocks.iter().zip(a.0).zip(b.0).zip(c.0).zip(d.0) {
            for l in 0..LANES {
                p[l] += a[l] * w[l];
                q[l] += b[l] * w[l];
                r[l] += c[l] * w[l];
                s[l] += d[l] * w[l];
            }
        }
        let finish = |sums: [f64; LANES], row: &[f64]| {
            let tail: f64 = rest.iter().zip(row).map(|(w, k)| w * k).sum();
            sums.iter().sum::<f64>() + tail
        };
        [finish(p, a.1), finish(q, b.1), finish(r, c.1), finish(s, d.1)]
    }
}

vectorized! {
    /// Adds four rows, each times its factor.
    pub fn add_four(columns: &mut [f64], rows: [&[f64]; ROWS], factors: [f64; ROWS]) {
        let [a, b, c, d] = rows.map(|row| &row[..columns.len()]);
        for (j, column) in columns.iter_mut().enumerate() {
            *column += (factors[0] * a[j] + factors[1] * b[j]) + (factors[2] * c[j] + factors[3] * d[j]);
        }
    }
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
