//! The levels a schedule may choose from.

use super::ScheduleError;
use crate::corruption::{Corruption, Levels, Spacing};

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

/// `count` levels over a corruption's whole range, spread as it asks for.
pub fn usual_candidates(corruption: &dyn Corruption, count: usize) -> Result<Vec<f64>, ScheduleError> {
    let Levels { clean, full } = corruption.levels();
    if let Spacing::Logarithmic { first, smallest } = corruption.spacing()
        && smallest < full
    {
        return log_spaced(first, smallest, full, count);
    }
    if count < 2 {
        return Err(ScheduleError::Knots { knots: 2, candidates: count });
    }
    Ok((0..count).map(|k| clean + (full - clean) * k as f64 / (count - 1) as f64).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corruption::{Blur, Boundary, Fading, Shape};

    const SHAPE: Shape = Shape { height: 32, width: 32, channels: 3 };

    #[test]
    fn blur_candidates_are_256_levels_from_a_hundredth_to_the_last() {
        let levels = usual_candidates(&Blur::new(SHAPE, Boundary::Zero, 18.0).unwrap(), 256).unwrap();
        assert_eq!((levels.len(), levels[0], levels[1], levels[255]), (256, 0.01, 0.05, 18.0));
        assert!(levels.windows(2).all(|w| w[0] < w[1]));
        let ratio = levels[2] / levels[1];
        assert!(levels[1..].windows(2).all(|w| (w[1] / w[0] - ratio).abs() < 1e-12));
    }

    #[test]
    fn unit_levels_are_even_and_bad_ranges_are_refused() {
        assert_eq!(usual_candidates(&Fading::new(SHAPE), 5).unwrap(), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert!(log_spaced(0.01, 2.0, 1.0, 9).is_err());
        assert!(log_spaced(0.01, 0.05, f64::NAN, 9).is_err());
    }
}
