//! The levels a schedule may choose from.

use super::ScheduleError;
use crate::corruption::Levels;

/// The paper's range of blur begins at this deviation (appendix, "Blur parameters"); it is the identity to the last bit.
const FIRST_BLUR: f64 = 0.01;
/// From here on blur levels are spaced evenly in their logarithm; below it nothing is blurred.
const FIRST_VISIBLE_BLUR: f64 = 0.05;

/// `clean`, then `count - 1` levels evenly spaced in their logarithm from `smallest` to `largest`.
pub fn log_spaced(clean: f64, smallest: f64, largest: f64, count: usize) -> Result<Vec<f64>, ScheduleError> {
    if count < 3 {
        return Err(ScheduleError::Knots { knots: 3, candidates: count });
    }
    if !(clean < smallest && 0.0 < smallest && smallest < largest && largest.is_finite()) {
        let remedy = "levels must rise from clean over smallest to largest, all above zero";
        return Err(ScheduleError::Range { what: "a logarithmic range", from: smallest, to: largest, remedy });
    }
    let steps = (count - 2) as f64;
    let ratio = (largest / smallest).ln();
    let rising = (0..count - 1).map(|k| match k {
        0 => smallest,
        k if k == count - 2 => largest,
        k => smallest * (ratio * k as f64 / steps).exp(),
    });
    Ok(std::iter::once(clean).chain(rising).collect())
}

/// The usual candidates for levels in pixels, such as blur: 0.01, then logarithmic from 0.05; for parts of one, such as
/// masks and fading: evenly spaced.
pub fn usual_candidates(levels: Levels, count: usize) -> Result<Vec<f64>, ScheduleError> {
    if levels.full > 1.0 && levels.clean == 0.0 {
        return log_spaced(FIRST_BLUR, FIRST_VISIBLE_BLUR, levels.full, count);
    }
    if count < 2 {
        return Err(ScheduleError::Knots { knots: 2, candidates: count });
    }
    let width = levels.full - levels.clean;
    Ok((0..count).map(|k| levels.clean + width * k as f64 / (count - 1) as f64).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blur_candidates_are_256_levels_from_a_hundredth_to_the_last() {
        let levels = usual_candidates(Levels { clean: 0.0, full: 18.0 }, 256).unwrap();
        assert_eq!((levels.len(), levels[0], levels[1], levels[255]), (256, 0.01, 0.05, 18.0));
        assert!(levels.windows(2).all(|w| w[0] < w[1]));
        let ratio = levels[2] / levels[1];
        assert!(levels[1..].windows(2).all(|w| (w[1] / w[0] - ratio).abs() < 1e-12));
    }

    #[test]
    fn unit_levels_are_even_and_bad_ranges_are_refused() {
        assert_eq!(usual_candidates(Levels::UNIT, 5).unwrap(), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert!(log_spaced(0.01, 2.0, 1.0, 9).is_err());
        assert!(log_spaced(0.01, 0.05, f64::NAN, 9).is_err());
    }
}
