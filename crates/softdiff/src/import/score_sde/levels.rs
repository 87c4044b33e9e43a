//! The discrete noise levels of a VE network.

use serde::{Deserialize, Serialize};

/// Geometric levels, as score_sde's `get_sigmas` makes them: the buffer `sigmas`, in three numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoiseLevels {
    /// How many, `model.num_scales`.
    pub count: usize,
    /// The first, `model.sigma_max`.
    pub largest: f64,
    /// The last, `model.sigma_min`.
    pub smallest: f64,
}

/// Largest relative distance of a level from the geometric one: single precision, with room.
const TOLERANCE: f64 = 1e-4;

/// The most levels that are written out.
const MOST: usize = 1 << 20;

impl NoiseLevels {
    /// The levels one by one, as score_sde's `get_sigmas` makes them.
    pub fn sigmas(&self) -> Vec<f64> {
        let (from, to, last) = (self.largest.ln(), self.smallest.ln(), self.count.saturating_sub(1).max(1) as f64);
        (0..self.count.min(MOST)).map(|index| (from + (to - from) * index as f64 / last).exp()).collect()
    }

    /// The levels of a checkpoint; none if they are not geometric, from the largest to the smallest.
    pub fn of(sigmas: &[f64]) -> Option<NoiseLevels> {
        let (&[first, .., last], count) = (sigmas, sigmas.len()) else { return None };
        let fits = |(index, sigma): (usize, &f64)| {
            let expected = first * (last / first).powf(index as f64 / (count - 1) as f64);
            (sigma / expected - 1.0).abs() < TOLERANCE
        };
        let falling = first > last && last > 0.0 && first.is_finite();
        // The numbers of the configuration, of which the buffer is an exponential of a logarithm.
        let tidy = |value: f64| format!("{value:.6e}").parse().unwrap_or(value);
        let levels = NoiseLevels { count, largest: tidy(first), smallest: tidy(last) };
        (falling && sigmas.iter().enumerate().all(fits)).then_some(levels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometric_levels_are_three_numbers_and_others_are_none() {
        let sigmas = |count: usize| -> Vec<f64> {
            (0..count).map(|i| (90f64.ln() + (0.01f64 / 90.0).ln() * i as f64 / (count - 1) as f64).exp()).collect()
        };
        let levels = NoiseLevels { count: 1000, largest: 90.0, smallest: 0.01 };
        assert_eq!(NoiseLevels::of(&sigmas(1000)), Some(levels));
        assert!(levels.sigmas().iter().zip(sigmas(1000)).all(|(level, sigma)| (level / sigma - 1.0).abs() < 1e-13));
        let mut bent = sigmas(1000);
        bent[500] *= 1.01;
        for bad in [&bent[..], &[], &[1.0], &[1.0, 2.0], &[1.0, 0.0], &[f64::NAN, 1.0]] {
            assert_eq!(NoiseLevels::of(bad), None);
        }
    }
}
