//! Counter-based randomness: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3").
//!
//! Every number is a pure function of (seed, purpose, step, index); there is no state to save. The float transforms
//! use only correctly rounded single operations (no fused multiply-add, no library calls), so that another backend can
//! reproduce them bit for bit.

mod random_stream;

pub use random_stream::RandomStream;

const MULTIPLIER: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// The Philox4x32-10 bijection.
#[inline(always)]
pub fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let ([mut c0, mut c1, mut c2, mut c3], [mut k0, mut k1]) = (counter, key);
    for _ in 0..10 {
        let p0 = u64::from(MULTIPLIER[0]) * u64::from(c0);
        let p1 = u64::from(MULTIPLIER[1]) * u64::from(c2);
        (c0, c1, c2, c3) = ((p1 >> 32) as u32 ^ c1 ^ k0, p1 as u32, (p0 >> 32) as u32 ^ c3 ^ k1, p0 as u32);
        k0 = k0.wrapping_add(WEYL[0]);
        k1 = k1.wrapping_add(WEYL[1]);
    }
    [c0, c1, c2, c3]
}

/// One stream of random numbers, indexed by element: what runs on every device. [`RandomStream`] draws from one in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The run's seed.
    pub seed: u64,
    /// What the numbers are for; different purposes never share numbers.
    pub purpose: u32,
    /// The training or sampling step.
    pub step: u32,
}

/// Which random numbers a run of a graph draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draw {
    /// The training or sampling step.
    pub step: u32,
    /// Which of the equal parts of the step's batch the run computes. Random tensors have the batch as their first axis, and each
    /// part has its own elements of the whole batch's: so the parts draw what one run of the whole batch does.
    pub part: u32,
}

impl From<u32> for Draw {
    /// A whole batch.
    fn from(step: u32) -> Draw {
        Draw { step, part: 0 }
    }
}

impl Stream {
    /// Four random words: block `block` of the stream.
    #[inline(always)]
    pub fn block(&self, block: u64) -> [u32; 4] {
        let counter = [block as u32, (block >> 32) as u32, self.step, self.purpose];
        philox(counter, [self.seed as u32, (self.seed >> 32) as u32])
    }

    /// Random word number `index`.
    pub fn word(&self, index: u64) -> u32 {
        self.block(index / 4)[(index % 4) as usize]
    }

    /// Uniform in (0, 1) number `index`.
    pub fn uniform(&self, index: u64) -> f32 {
        uniform(self.word(index))
    }

    /// Standard normal number `index`.
    pub fn normal(&self, index: u64) -> f32 {
        normals(self.block(index / 4))[(index % 4) as usize]
    }

    /// Fills `out` with standard normals, element `i` being number `first + i`.
    pub fn fill_normal(&self, first: u64, out: &mut [f32]) {
        fill(out, first, |block| normals(self.block(block)));
    }

    /// Fills `out` with uniforms in (0, 1), element `i` being number `first + i`.
    pub fn fill_uniform(&self, first: u64, out: &mut [f32]) {
        fill(out, first, |block| self.block(block).map(uniform));
    }
}

fn fill(out: &mut [f32], first: u64, block: impl Fn(u64) -> [f32; 4]) {
    let mut index = first;
    let mut rest = out;
    while !rest.is_empty() {
        let skip = (index % 4) as usize;
        let take = (4 - skip).min(rest.len());
        let (head, tail) = rest.split_at_mut(take);
        head.copy_from_slice(&block(index / 4)[skip..skip + take]);
        (index, rest) = (index + take as u64, tail);
    }
}

/// (word + 1/2) / 2^32 rounded to 24 bits and kept below 1: uniform in (0, 1).
#[inline(always)]
pub fn uniform(word: u32) -> f32 {
    // The top 23 bits and a half: exact in f32, symmetric, never 0 or 1.
    ((word >> 9) as f32 + 0.5) * (1.0 / 8_388_608.0)
}

/// Four standard normals from four words, by Box and Muller.
#[inline(always)]
pub fn normals(words: [u32; 4]) -> [f32; 4] {
    let [a, b] = box_muller(words[0], words[1]);
    let [c, d] = box_muller(words[2], words[3]);
    [a, b, c, d]
}

#[inline(always)]
fn box_muller(radius_word: u32, angle_word: u32) -> [f32; 2] {
    // All 32 bits go into the radius, so that the tails reach 6.6 standard deviations.
    let radius = (-2.0 * ln_unit((radius_word as f32 + 0.5) * (1.0 / 4_294_967_296.0))).sqrt();
    let (sin, cos) = sin_cos_turn(angle_word);
    [radius * cos, radius * sin]
}

/// Natural logarithm on (0, 1], Cephes' `logf` polynomial, relative error about 1e-7.
#[inline(always)]
fn ln_unit(x: f32) -> f32 {
    let bits = x.to_bits();
    // Mantissa in [sqrt(1/2), sqrt(2)): the subtraction moves the cut from 1 to sqrt(1/2).
    let offset = bits.wrapping_sub(0x3F35_04F3);
    let exponent = (offset as i32 >> 23) as f32;
    let f = f32::from_bits((offset & 0x007F_FFFF) + 0x3F35_04F3) - 1.0;
    let z = f * f;
    let p = 7.037_683_6e-2f32;
    let p = p * f - 1.151_461e-1;
    let p = p * f + 1.167_699_9e-1;
    let p = p * f - 1.242_014_1e-1;
    let p = p * f + 1.424_932_3e-1;
    let p = p * f - 1.666_805_7e-1;
    let p = p * f + 2.000_071_5e-1;
    let p = p * f - 2.499_999_4e-1;
    let p = p * f + 3.333_333e-1;
    let y = f * z * p;
    let y = y + exponent * -2.121_944_4e-4;
    let y = y - 0.5 * z;
    f + y + exponent * 0.693_359_4
}

/// Sine and cosine of `word / 2^32` of a full turn, within 1e-7.
#[inline(always)]
fn sin_cos_turn(word: u32) -> (f32, f32) {
    // The nearest quarter turn, and what is left of the angle in [-pi/4, pi/4).
    let quarter = word.wrapping_add(1 << 29) >> 30;
    let rest = word.wrapping_sub(quarter << 30) as i32;
    let x = rest as f32 * (std::f32::consts::FRAC_PI_2 / 1_073_741_824.0);
    let z = x * x;
    let sin = ((-1.951_529_6e-4 * z + 8.332_161e-3) * z - 1.666_665_5e-1) * z * x + x;
    let cos = ((2.443_315_7e-5 * z - 1.388_731_6e-3) * z + 4.166_664_6e-2) * z * z - 0.5 * z + 1.0;
    match quarter & 3 {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_published_vectors() {
        // kat_vectors of Random123 for philox4x32-10.
        let cases = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(philox(counter, key), expected);
        }
    }

    const STREAM: Stream = Stream { seed: 7, purpose: 3, step: 11 };

    #[test]
    fn numbers_do_not_depend_on_where_a_fill_begins() {
        let mut all = vec![0.0; 1003];
        STREAM.fill_normal(0, &mut all);
        for first in [0, 1, 2, 3, 4, 5, 501] {
            let mut part = vec![0.0; 97];
            STREAM.fill_normal(first as u64, &mut part);
            assert_eq!(part, all[first..first + 97]);
            assert_eq!(STREAM.normal(first as u64), all[first]);
        }
    }

    #[test]
    fn seed_purpose_and_step_each_change_every_number() {
        let others = [
            Stream { seed: 8, ..STREAM },
            Stream { purpose: 4, ..STREAM },
            Stream { step: 12, ..STREAM },
            Stream { seed: 7 | 1 << 32, ..STREAM },
        ];
        for other in others {
            assert!((0..256).all(|i| other.word(i) != STREAM.word(i)));
        }
    }

    /// Largest distance between the empirical distribution and `cdf`.
    fn kolmogorov_smirnov(mut sample: Vec<f32>, cdf: impl Fn(f64) -> f64) -> f64 {
        sample.sort_by(f32::total_cmp);
        let n = sample.len() as f64;
        sample.iter().enumerate().fold(0.0, |worst: f64, (i, &x)| {
            let p = cdf(f64::from(x));
            worst.max((p - i as f64 / n).abs()).max((p - (i + 1) as f64 / n).abs())
        })
    }

    /// Standard normal distribution function, by its series and continued fraction (both converge fast where used).
    fn normal_cdf(x: f64) -> f64 {
        let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        if x.abs() < 3.0 {
            let mut term = x;
            let mut sum = x;
            for k in 1..100 {
                term *= x * x / (2 * k + 1) as f64;
                sum += term;
            }
            0.5 + density * sum
        } else {
            let fraction = (1..60).rev().fold(0.0, |tail, k| k as f64 / (x.abs() + tail));
            let upper = density / (x.abs() + fraction);
            if x > 0.0 { 1.0 - upper } else { upper }
        }
    }

    #[test]
    fn normals_have_the_moments_and_the_distribution_of_a_normal() {
        let n = 1 << 20;
        let mut sample = vec![0.0f32; n];
        STREAM.fill_normal(0, &mut sample);
        let moment = |k: i32| sample.iter().map(|&x| f64::from(x).powi(k)).sum::<f64>() / n as f64;
        // Standard errors of the raw moments are sqrt((2k-1)!! - ...)/sqrt(n) <= sqrt(96)/1024; four of them allowed.
        for (k, expected, deviation) in [(1, 0.0, 1.0f64), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
            let bound = 4.0 * deviation.sqrt() / (n as f64).sqrt();
            assert!((moment(k) - expected).abs() < bound, "moment {k} is {}", moment(k));
        }
        let lag: f64 = sample.windows(2).map(|w| f64::from(w[0] * w[1])).sum::<f64>() / n as f64;
        assert!(lag.abs() < 4.0 / (n as f64).sqrt());
        // The 99.9 % point of Kolmogorov's distribution is 1.95.
        let distance = kolmogorov_smirnov(sample, normal_cdf);
        assert!(distance < 1.95 / (n as f64).sqrt(), "Kolmogorov-Smirnov distance {distance}");
    }

    #[test]
    fn uniforms_are_uniform_and_never_reach_the_ends() {
        let n = 1 << 18;
        let mut sample = vec![0.0f32; n];
        STREAM.fill_uniform(0, &mut sample);
        assert!(sample.iter().all(|&u| u > 0.0 && u < 1.0));
        assert_eq!((uniform(0) > 0.0, uniform(u32::MAX) < 1.0), (true, true));
        assert!(kolmogorov_smirnov(sample, |x| x) < 1.95 / (n as f64).sqrt());
    }

    #[test]
    fn the_float_transforms_agree_with_the_library_to_single_precision() {
        for i in 0..100_000u32 {
            let word = i.wrapping_mul(42_949);
            let x = (word as f32 + 0.5) * (1.0 / 4_294_967_296.0);
            let exact = f64::from(x).ln();
            assert!((f64::from(ln_unit(x)) - exact).abs() <= 1.5e-7 * exact.abs().max(1e-3), "ln {x}");
            let (sin, cos) = sin_cos_turn(word);
            let angle = f64::from(word) / 4_294_967_296.0 * std::f64::consts::TAU;
            assert!((f64::from(sin) - angle.sin()).abs() < 1.5e-7 && (f64::from(cos) - angle.cos()).abs() < 1.5e-7);
        }
    }
}
