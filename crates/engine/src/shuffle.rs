//! Random permutations without memory: place `i` of a shuffled sequence, for any `i`, in constant time and space.
//!
//! A Feistel network (Luby and Rackoff, 1988) with Philox as its round function permutes 0..2^(2k); walking along its
//! cycles until the walk is back below `n` (Black and Rogaway, 2002) makes it a permutation of 0..n.

use crate::rng::Stream;

/// Four make a permutation indistinguishable from a random one; small sets profit from a few more.
const ROUNDS: u64 = 6;
/// Tiny networks have too few states to shuffle well.
const MIN_HALF_BITS: u32 = 4;

/// A permutation of 0..n, chosen by a stream of random numbers.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    stream: Stream,
    n: u64,
    half_bits: u32,
}

/// Which image comes when, as a pure function of seed and place: every epoch sees every image once, in an order of
/// its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shuffled {
    /// Values of a image.
    pub image_size: usize,
    /// The run's seed.
    pub seed: u64,
    /// Purpose of the random numbers.
    pub purpose: u32,
}

impl Shuffled {
    /// The image in place `seen` of a sequence without end, of `count` images.
    pub fn at(&self, seen: u64, count: u64) -> u64 {
        let stream = Stream { seed: self.seed, purpose: self.purpose, step: (seen / count) as u32 };
        Permutation::new(stream, count).at(seen % count)
    }
}

/// Bits of either half of the network that permutes 0..n.
pub(crate) fn half_bits(n: u64) -> u32 {
    let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
    bits.div_ceil(2).max(MIN_HALF_BITS)
}

impl Permutation {
    /// The permutation of 0..`n` that belongs to this stream.
    pub fn new(stream: Stream, n: u64) -> Permutation {
        Permutation { stream, n, half_bits: half_bits(n) }
    }

    /// What stands at place `index`.
    ///
    /// # Panics
    /// If `index` is not below `n`: the walk would not end.
    pub fn at(&self, index: u64) -> u64 {
        assert!(index < self.n, "place {index} of a permutation of {}", self.n);
        let mut value = self.feistel(index);
        while value >= self.n {
            value = self.feistel(value);
        }
        value
    }

    fn feistel(&self, value: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for round in 0..ROUNDS {
            let word = self.stream.block(round << 32 | right)[0];
            (left, right) = (right, left ^ (u64::from(word) & mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permutation(seed: u64, n: u64) -> Vec<u64> {
        let permutation = Permutation::new(Stream { seed, purpose: 1, step: 0 }, n);
        (0..n).map(|index| permutation.at(index)).collect()
    }

    #[test]
    fn every_number_appears_once() {
        for n in [1, 2, 3, 10, 255, 256, 257, 1000, 65_537] {
            let mut sorted = permutation(n, n);
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..n), "{n}");
        }
    }

    #[test]
    fn seeds_give_other_orders_and_every_order_of_three_is_equally_likely() {
        assert_ne!(permutation(1, 1000), permutation(2, 1000));
        let mut counts = std::collections::HashMap::new();
        for seed in 0..6000 {
            *counts.entry(permutation(seed, 3)).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 6);
        // 1000 expected, standard deviation 29; five of them allowed.
        assert!(counts.values().all(|count| count.abs_diff(1000) < 145), "{counts:?}");
    }

    #[test]
    fn neighbours_do_not_stay_neighbours() {
        let n = 50_000;
        let order = permutation(3, n);
        let close = order.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count();
        // Two of n pairs on average, Poisson.
        assert!(close < 12, "{close}");
        // The rank correlation of a random order has standard deviation 1/sqrt(n).
        let mean = (n - 1) as f64 / 2.0;
        let covariance: f64 = order.iter().zip(0u64..).map(|(&v, i)| (v as f64 - mean) * (i as f64 - mean)).sum();
        let variance: f64 = (0..n).map(|i| (i as f64 - mean).powi(2)).sum();
        assert!((covariance / variance).abs() < 5.0 / (n as f64).sqrt());
    }
}
