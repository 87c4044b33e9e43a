//! The inverse cosine transform of libjpeg's `jidctint.c` ("islow"): Loeffler, Ligtenberg and Moschytz, 1989, with
//! 13-bit constants. Every rounding is the same, so every sample is.

use std::num::Wrapping;

type W = Wrapping<i32>;

const CONST_BITS: usize = 13;
const PASS1_BITS: usize = 2;

/// Round(x * 2^13).
const FIX_0_298631336: W = Wrapping(2446);
const FIX_0_390180644: W = Wrapping(3196);
const FIX_0_541196100: W = Wrapping(4433);
const FIX_0_765366865: W = Wrapping(6270);
const FIX_0_899976223: W = Wrapping(7373);
const FIX_1_175875602: W = Wrapping(9633);
const FIX_1_501321110: W = Wrapping(12299);
const FIX_1_847759065: W = Wrapping(15137);
const FIX_1_961570560: W = Wrapping(16069);
const FIX_2_053119869: W = Wrapping(16819);
const FIX_2_562915447: W = Wrapping(20995);
const FIX_3_072711026: W = Wrapping(25172);

/// Dequantizes and transforms one block into 8 rows of `samples`, `stride` apart.
pub fn islow(block: &[i16; 64], quantization: &[u16; 64], samples: &mut [u8], stride: usize) {
    let mut work = [Wrapping(0); 64];
    for column in 0..8 {
        let input = |row: usize| {
            let at = (row * 8 + column) & 63;
            Wrapping(i32::from(block[at])) * Wrapping(i32::from(quantization[at]))
        };
        let column_out = if (1..8).all(|row| block[(row * 8 + column) & 63] == 0) {
            [input(0) << PASS1_BITS; 8]
        } else {
            let inputs = [0, 1, 2, 3, 4, 5, 6, 7].map(input);
            transform(inputs).map(|sum| descale(sum, CONST_BITS - PASS1_BITS))
        };
        for (row, value) in column_out.into_iter().enumerate() {
            work[(row * 8 + column) & 63] = value;
        }
    }
    for (inputs, row) in work.as_chunks::<8>().0.iter().zip(samples.chunks_mut(stride)) {
        let outputs = transform(*inputs).map(|sum| descale(sum, CONST_BITS + PASS1_BITS + 3));
        for (sample, value) in row.iter_mut().zip(outputs) {
            *sample = (value.0.wrapping_add(128)).clamp(0, 255) as u8;
        }
    }
}

fn descale(sum: W, bits: usize) -> W {
    (sum + (Wrapping(1) << (bits - 1))) >> bits
}

/// Eight inputs to eight outputs, scaled up by 2^13.
#[inline(always)]
fn transform([i0, i1, i2, i3, i4, i5, i6, i7]: [W; 8]) -> [W; 8] {
    let z1 = (i2 + i6) * FIX_0_541196100;
    let even2 = z1 - i6 * FIX_1_847759065;
    let even3 = z1 + i2 * FIX_0_765366865;
    let even0 = (i0 + i4) << CONST_BITS;
    let even1 = (i0 - i4) << CONST_BITS;
    let (t10, t13) = (even0 + even3, even0 - even3);
    let (t11, t12) = (even1 + even2, even1 - even2);

    let (z1, z2, z3, z4) = (i7 + i1, i5 + i3, i7 + i3, i5 + i1);
    let z5 = (z3 + z4) * FIX_1_175875602;
    let z1 = -z1 * FIX_0_899976223;
    let z2 = -z2 * FIX_2_562915447;
    let z3 = z5 - z3 * FIX_1_961570560;
    let z4 = z5 - z4 * FIX_0_390180644;
    let odd0 = i7 * FIX_0_298631336 + z1 + z3;
    let odd1 = i5 * FIX_2_053119869 + z2 + z4;
    let odd2 = i3 * FIX_3_072711026 + z2 + z3;
    let odd3 = i1 * FIX_1_501321110 + z1 + z4;
    [t10 + odd3, t11 + odd2, t12 + odd1, t13 + odd0, t13 - odd0, t12 - odd1, t11 - odd2, t10 - odd3]
}
