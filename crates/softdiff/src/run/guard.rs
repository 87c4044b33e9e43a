//! The guard before the optimiser: nothing that is not finite reaches the weights, and a spike does not go unseen.

use serde::{Deserialize, Serialize};
use softdiff_engine::Hint;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Skipped updates in a row after which training stops.
pub const MOST_SKIPS: u32 = 10;
/// Values that a spike is measured against (llm.c's outlier detector).
const WINDOW: usize = 128;
/// Standard deviations above the mean that make a spike. llm.c skips such updates at a threshold of the user's; we
/// only warn. Norms have long tails: the quickstart's healthy run reaches 7 now and then.
const SPIKE: f64 = 9.0;

/// What the guard remembers; part of every checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Guard {
    /// Updates skipped since the last good one.
    pub skipped_in_a_row: u32,
    /// Updates skipped since training began.
    pub skipped: u64,
    loss: Recent,
    norm: Recent,
}

/// What to do with an update.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub enum Verdict {
    /// Apply it.
    Apply,
    /// Apply it, and warn.
    Spike(Spike),
    /// Do not apply it: the value named is not finite.
    Skip(Quantity),
    /// Do not apply it, and stop: so many in a row were not finite.
    Stop(Quantity),
}

/// What is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quantity {
    /// The loss of the batch.
    Loss,
    /// The gradient's global norm.
    Gradient,
}

/// A value far above those before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spike {
    /// Of what.
    pub quantity: Quantity,
    /// The value.
    pub value: f64,
    /// Mean of the values before it.
    pub mean: f64,
    /// Its distance from the mean in standard deviations.
    pub z: f64,
}

/// Training that only produced non-finite numbers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the {quantity} was not finite {in_a_row} times in a row, up to step {step}; the last good checkpoint is {}",
    last_good.as_deref().and_then(Path::file_name).map_or("none".into(), OsStr::to_string_lossy)
)]
pub struct Diverged {
    /// What was not finite.
    pub quantity: Quantity,
    /// How often in a row.
    pub in_a_row: u32,
    /// The step that was the last straw.
    pub step: u64,
    /// The newest checkpoint that makes images of finite numbers.
    pub last_good: Option<PathBuf>,
}

impl Hint for Diverged {
    fn hint(&self) -> Option<Cow<'_, str>> {
        const LOWER: &str = "a lower learning rate (train.rate) or clipping norm (train.clip)";
        Some(match &self.last_good {
            Some(checkpoint) => {
                let checkpoint = checkpoint.display();
                format!("start a new run from it with {LOWER}: --out NEW --set train.from={checkpoint}").into()
            }
            None => format!("start a new run with {LOWER}, and check the data for values that are not finite").into(),
        })
    }
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Quantity::Loss => "loss",
            Quantity::Gradient => "gradient",
        })
    }
}

impl Guard {
    /// Judges an update by its loss and the norm of its gradient, before it is applied.
    pub fn judge(&mut self, loss: f64, norm: f64) -> Verdict {
        let infinite = [(Quantity::Loss, loss), (Quantity::Gradient, norm)].into_iter().find(|(_, v)| !v.is_finite());
        if let Some((quantity, _)) = infinite {
            self.skipped += 1;
            self.skipped_in_a_row += 1;
            return if self.skipped_in_a_row >= MOST_SKIPS { Verdict::Stop(quantity) } else { Verdict::Skip(quantity) };
        }
        self.skipped_in_a_row = 0;
        let spikes = [self.loss.spike(Quantity::Loss, loss), self.norm.spike(Quantity::Gradient, norm)];
        spikes.into_iter().flatten().next().map_or(Verdict::Apply, Verdict::Spike)
    }
}

/// The last values of a quantity, all finite.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
struct Recent(VecDeque<f64>);

impl Recent {
    /// Whether `value` is a spike against the values so far, of which it becomes one.
    fn spike(&mut self, quantity: Quantity, value: f64) -> Option<Spike> {
        let full = self.0.len() >= WINDOW;
        // Summed anew each time: running sums would drift, and the state must survive a checkpoint exactly.
        let n = self.0.len().max(1) as f64;
        let mean = self.0.iter().sum::<f64>() / n;
        let variance = self.0.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
        if full {
            self.0.pop_front();
        }
        self.0.push_back(value);
        let z = (value - mean) / variance.sqrt();
        (full && z > SPIKE && z.is_finite()).then_some(Spike { quantity, value, mean, z })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values around 1 with a standard deviation of 0.1.
    fn calm(i: u64) -> f64 {
        1.0 + if i.is_multiple_of(2) { 0.1 } else { -0.1 }
    }

    #[test]
    fn ten_in_a_row_stop_and_a_good_one_forgives() {
        let mut guard = Guard::default();
        for round in 1..=3 {
            for _ in 0..MOST_SKIPS - 1 {
                assert_eq!(guard.judge(f64::NAN, 1.0), Verdict::Skip(Quantity::Loss));
            }
            assert_eq!(guard.judge(1.0, 1.0), Verdict::Apply);
            assert_eq!((guard.skipped_in_a_row, guard.skipped), (0, 9 * round));
        }
        for _ in 0..MOST_SKIPS - 1 {
            assert_eq!(guard.judge(1.0, f64::INFINITY), Verdict::Skip(Quantity::Gradient));
        }
        assert_eq!(guard.judge(1.0, f64::NEG_INFINITY), Verdict::Stop(Quantity::Gradient));
    }

    #[test]
    fn a_spike_is_reported_and_noise_is_not() {
        let mut guard = Guard::default();
        for i in 0..500 {
            assert_eq!(guard.judge(calm(i), calm(i + 1)), Verdict::Apply);
        }
        let Verdict::Spike(spike) = guard.judge(2.0, 1.0) else { panic!("no spike") };
        assert_eq!(spike.quantity, Quantity::Loss);
        assert!((spike.z - 10.0).abs() < 1e-9 && (spike.mean - 1.0).abs() < 1e-12);
        let Verdict::Spike(spike) = guard.judge(1.0, 50.0) else { panic!("no spike") };
        assert_eq!(spike.quantity, Quantity::Gradient);
    }

    #[test]
    fn nothing_is_a_spike_before_the_window_is_full_or_when_all_values_were_equal() {
        let mut guard = Guard::default();
        for i in 0..WINDOW as u64 - 1 {
            assert_eq!(guard.judge(calm(i), 1.0), Verdict::Apply);
        }
        assert_eq!(guard.judge(1e6, 1.0), Verdict::Apply);
        let mut constant = Guard::default();
        for _ in 0..WINDOW {
            assert_eq!(constant.judge(1.0, 1.0), Verdict::Apply);
        }
        assert_eq!(constant.judge(1.5, 1.0), Verdict::Apply, "no deviation to measure by");
    }

    #[test]
    fn values_that_are_not_finite_never_enter_the_memory() {
        let mut guard = Guard::default();
        for i in 0..300 {
            let _ = guard.judge(calm(i), 0.1 + i as f64 / 3.0);
            let _ = guard.judge(f64::NAN, f64::INFINITY);
        }
        let text = serde_json::to_string(&guard).unwrap();
        assert_eq!(serde_json::from_str::<Guard>(&text).unwrap(), guard, "and it survives JSON exactly");
    }

    #[test]
    fn divergence_names_the_last_good_checkpoint() {
        let last_good = Some("runs/one/checkpoints/step-000000100".into());
        let error = Diverged { quantity: Quantity::Loss, in_a_row: 10, step: 123, last_good };
        let expected =
            "the loss was not finite 10 times in a row, up to step 123; the last good checkpoint is step-000000100";
        assert_eq!(error.to_string(), expected);
        assert!(error.hint().unwrap().ends_with("--set train.from=runs/one/checkpoints/step-000000100"));
    }
}
