//! A stream that is drawn from in order, in `f64`, for what is computed on the host.

use super::Stream;
use crate::hash::fnv1a64;

/// A stream of random numbers for one purpose: a position in a [`Stream`].
#[derive(Debug, Clone)]
pub struct RandomStream {
    stream: Stream,
    counter: u64,
    spare: Option<f64>,
}

impl RandomStream {
    /// The stream of `seed` for `purpose`; different purposes share nothing.
    pub fn new(seed: u64, purpose: &str) -> Self {
        Self::of_key(Self::of_key(seed).at(fnv1a64(purpose.as_bytes())))
    }

    /// Stream number `index` of `seed` for `purpose`: one sample's own, whatever batch it is drawn in.
    pub fn numbered(seed: u64, purpose: &str, index: usize) -> Self {
        Self::of_key(Self::new(seed, purpose).at(index as u64))
    }

    fn of_key(seed: u64) -> Self {
        RandomStream { stream: Stream { seed, purpose: 0, step: 0 }, counter: 0, spare: None }
    }

    /// The 64 bits at a position.
    fn at(&self, counter: u64) -> u64 {
        let [low, high, ..] = self.stream.block(counter);
        u64::from(high) << 32 | u64::from(low)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let bits = self.at(self.counter);
        self.counter += 1;
        bits
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in 0..n, without bias that matters (n far below 2^53).
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// Standard normal (Box-Muller).
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * self.uniform()).sin_cos();
        self.spare = Some(radius * sine);
        radius * cosine
    }

    /// `count` standard normals.
    pub fn normals(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.normal()).collect()
    }

    /// A permutation of 0..n (Fisher-Yates).
    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_philox() {
        // The published vector of philox4x32-10 for counter 0 and key 0.
        assert_eq!(RandomStream::of_key(0).at(0), 0xe169_c58d_6627_e8d5);
    }

    #[test]
    fn normals_have_unit_variance_and_permutations_are_permutations() {
        let mut stream = RandomStream::new(7, "test");
        let draws = stream.normals(40_000);
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| x * x).sum::<f64>() / draws.len() as f64;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03);
        let mut order = stream.permutation(100);
        assert_ne!(order, (0..100).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn purposes_have_streams_of_their_own() {
        assert_ne!(RandomStream::new(1, "a").bits(), RandomStream::new(1, "b").bits());
        assert_eq!(RandomStream::new(1, "a").bits(), RandomStream::new(1, "a").bits());
    }
}
