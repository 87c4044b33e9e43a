//! The paper's baseline schedule: the mean squared error grows as it does under pure noise (appendix, "Ablation Study for
//! Blur").

use super::ScheduleError;
use crate::curve::{Curve, Interpolation};

/// The variance-exploding diffusion whose pace is copied: `sigma(t) = smallest (largest/smallest)^t`.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct VarianceExploding {
    /// sigma at t = 0; score_sde uses 0.01.
    pub smallest: f64,
    /// sigma at t = 1; score_sde uses 50 for CIFAR-10 and 90 for CelebA-64.
    pub largest: f64,
}

impl VarianceExploding {
    /// The part of the final squared error reached at t: both sides of the paper's equation.
    fn part(&self, t: f64) -> f64 {
        (self.smallest / self.largest).powf(2.0 * (1.0 - t))
    }
}

/// Levels at `times` such that `E|x_0 - x_t|^2 / E|x_0 - x_1|^2` equals that of `pace`.
///
/// `errors[k]` is the mean squared change of an image by corruption level `levels[k]` alone, rising, and `noise[i]` the
/// added noise `d sigma^2` at `times[i]`; the last time must be 1. Where noise alone already exceeds the target the level
/// stays clean. Between the given levels the error is interpolated linearly.
pub fn mse_matched(
    levels: &[f64],
    errors: &[f64],
    pace: VarianceExploding,
    times: &[f64],
    noise: &[f64],
) -> Result<Vec<f64>, ScheduleError> {
    let VarianceExploding { smallest, largest } = pace;
    if !(smallest > 0.0 && smallest < largest && largest.is_finite()) {
        let remedy = "give a positive range of noise, such as 0.01 to 50";
        return Err(ScheduleError::Range { what: "the noise to copy", from: smallest, to: largest, remedy });
    }
    if times.last() != Some(&1.0) || noise.len() != times.len() || levels.len() != errors.len() {
        let (from, to) = (times.first().copied().unwrap_or(f64::NAN), times.last().copied().unwrap_or(f64::NAN));
        let remedy = "end it at 1, with one noise per time and one error per level";
        return Err(ScheduleError::Range { what: "the time grid", from, to, remedy });
    }
    let (mut rising, mut along) = (vec![errors[0]], vec![levels[0]]);
    for (&error, &level) in errors.iter().zip(levels).skip(1) {
        if error > rising[rising.len() - 1] {
            rising.push(error);
            along.push(level);
        }
    }
    let final_error = rising[rising.len() - 1] + noise[noise.len() - 1];
    let level_of_error = Curve::new(rising, along, Interpolation::Linear)?;
    let matched = times.iter().zip(noise).map(|(&t, n)| level_of_error.value(pace.part(t) * final_error - n));
    // Noise that grows faster than the target would take blur back; a level never falls.
    let mut highest = levels[0];
    Ok(matched
        .map(|level| {
            highest = f64::max(highest, level);
            highest
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matched_errors_grow_as_those_of_the_copied_diffusion() {
        let levels: Vec<f64> = (0..=4000).map(|i| i as f64 / 200.0).collect();
        let error = |level: f64| 100.0 * (1.0 - 1.0 / (1.0 + level * level));
        let errors: Vec<f64> = levels.iter().map(|&l| error(l)).collect();
        let times: Vec<f64> = (0..=20).map(|i| i as f64 / 20.0).collect();
        let noise = vec![0.0; 21];
        let pace = VarianceExploding { smallest: 0.01, largest: 50.0 };
        let matched = mse_matched(&levels, &errors, pace, &times, &noise).unwrap();
        for (&t, &level) in times.iter().zip(&matched) {
            let expected = (0.01 * 5000f64.powf(t) / 50.0).powi(2);
            assert!((error(level) / error(20.0) - expected).abs() < 1e-5, "at {t}");
        }
        assert_eq!(matched[20], 20.0);
    }

    #[test]
    fn noise_beyond_the_target_leaves_images_clean() {
        let pace = VarianceExploding { smallest: 0.01, largest: 50.0 };
        let matched = mse_matched(&[0.0, 1.0], &[0.0, 100.0], pace, &[0.0, 0.5, 1.0], &[5.0, 5.0, 5.0]).unwrap();
        assert_eq!(matched, [0.0, 0.0, 1.0]);
        assert!(mse_matched(&[0.0, 1.0], &[0.0, 1.0], pace, &[0.0, 0.5], &[0.0, 0.0]).is_err());
    }
}
