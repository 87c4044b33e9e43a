//! How long a training will take, in words.

use std::time::{Duration, Instant};

/// Steps that are timed at the least, and for how long.
const TIMED_STEPS: u64 = 3;
const TIMED: Duration = Duration::from_secs(1);

/// The pace of a training's first steps, which are part of it. The very first is not timed: it brings memory and code.
#[derive(Default)]
pub struct FirstPace {
    begun: Option<(Instant, u64)>,
    is_told: bool,
}

impl FirstPace {
    /// After step `done` of `steps`: what is to be expected, once, when enough steps are timed.
    pub fn estimate(&mut self, done: u64, steps: u64) -> Option<String> {
        let (begun, first) = *self.begun.get_or_insert_with(|| (Instant::now(), done));
        let (elapsed, timed) = (begun.elapsed(), done.saturating_sub(first));
        if self.is_told || timed < TIMED_STEPS || elapsed < TIMED {
            return None;
        }
        self.is_told = true;
        let step = elapsed.as_secs_f64() / timed as f64;
        let left = duration(step * steps.saturating_sub(done) as f64);
        Some(format!("time: about {left} for {} more steps, {} each", steps.saturating_sub(done), duration(step)))
    }
}

/// A duration to two digits or so.
pub fn duration(seconds: f64) -> String {
    match seconds {
        ..0.1 => format!("{:.1} ms", seconds * 1e3),
        ..10.0 => format!("{seconds:.1} s"),
        ..120.0 => format!("{seconds:.0} s"),
        ..7200.0 => format!("{:.0} minutes", seconds / 60.0),
        ..172_800.0 => format!("{:.1} hours", seconds / 3600.0),
        _ => format!("{:.1} days", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_in_the_unit_that_suits_them() {
        let told = [0.0123, 0.5, 42.4, 125.0, 3600.0, 7300.0, 400_000.0].map(duration);
        assert_eq!(told, ["12.3 ms", "0.5 s", "42 s", "2 minutes", "60 minutes", "2.0 hours", "4.6 days"]);
    }

    #[test]
    fn the_pace_is_told_once_and_only_after_enough_steps_and_time() {
        let mut pace = FirstPace::default();
        assert_eq!([pace.estimate(11, 100), pace.estimate(12, 100), pace.estimate(20, 100)], [None, None, None]);
        pace.begun = Some((Instant::now() - Duration::from_secs(4), 10));
        let told = pace.estimate(20, 100).unwrap();
        assert!(told.starts_with("time: about 32 s for 80 more steps, 0.4 s each"), "{told}");
        assert_eq!(pace.estimate(30, 100), None);
    }
}
