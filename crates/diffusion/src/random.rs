//! Counter-based randomness: each number is a pure function of (seed, purpose, counter).
//!
//! Numbers come from the engine's Philox4x32-10.

use softdiff_engine::rng::philox;

/// The random word number `counter` of the stream `key`.
fn word(key: u64, counter: u64) -> u64 {
    let [low, high, _, _] = philox([counter as u32, (counter >> 32) as u32, 0, 0], [key as u32, (key >> 32) as u32]);
    u64::from(high) << 32 | u64::from(low)
}

/// A stream of random numbers for one purpose.
#[derive(Debug, Clone)]
pub struct RandomStream {
    key: u64,
    counter: u64,
    spare: Option<f64>,
}

impl RandomStream {
    /// The stream of `seed` for `purpose`; different purposes share nothing.
    pub fn new(seed: u64, purpose: &str) -> Self {
        RandomStream { key: word(seed, softdiff_engine::hash::of_bytes(purpose.as_bytes())), counter: 0, spare: None }
    }

    /// Stream number `index` of `seed` for `purpose`: one sample's own, whatever batch it is drawn in.
    pub fn numbered(seed: u64, purpose: &str, index: usize) -> Self {
        let stream = Self::new(seed, purpose);
        RandomStream { key: word(stream.key, index as u64), ..stream }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let bits = word(self.key, self.counter);
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
        assert_eq!(word(0, 0), 0xe169_c58d_6627_e8d5);
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
