//! Averages between two step events. Part of every checkpoint, so that stopping between two events changes neither.

use super::event::EventKind;
use serde::{Deserialize, Serialize};

/// Sums since the last step event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Meter {
    steps: u64,
    loss: f64,
    norm: f64,
    /// Sum of losses and number of images, by bin of t.
    bins: Vec<(f64, u64)>,
}

impl Meter {
    /// Adds an applied step: the batch's loss and gradient norm, and each image's loss beside its time in [0, 1].
    ///
    /// `bins` equal bins of time; another number than before begins them anew.
    pub fn add(&mut self, loss: f64, norm: f64, bins: usize, images: impl IntoIterator<Item = (f32, f32)>) {
        self.steps += 1;
        self.loss += loss;
        self.norm += norm;
        if self.bins.len() != bins {
            self.bins = vec![(0.0, 0); bins];
        }
        for (t, loss) in images {
            let bin = ((t * bins as f32) as usize).min(bins.saturating_sub(1));
            if let Some((sum, count)) = self.bins.get_mut(bin) {
                *sum += f64::from(loss);
                *count += 1;
            }
        }
    }

    /// The event for the steps since the last one, from which the next begins; none when none was applied.
    pub fn report(&mut self, images_seen: u64, rate: f64) -> Option<EventKind> {
        let Meter { steps, loss, norm, bins } = std::mem::take(self);
        let n = steps as f64;
        let loss_by_time = bins.iter().map(|(sum, count)| (*count > 0).then(|| sum / *count as f64)).collect();
        (steps > 0).then(|| EventKind::Step { images_seen, loss: loss / n, loss_by_time, rate, norm: norm / n })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_over_the_steps_since_the_last_report_and_by_bin_of_time() {
        let mut meter = Meter::default();
        assert_eq!(meter.report(0, 0.1), None);
        meter.add(1.0, 3.0, 4, [(0.0, 1.0), (0.24, 2.0), (1.0, 5.0)]);
        meter.add(2.0, 5.0, 4, [(0.5, 7.0)]);
        let loss_by_time = vec![Some(1.5), None, Some(7.0), Some(5.0)];
        let expected = EventKind::Step { images_seen: 4, loss: 1.5, loss_by_time, rate: 0.1, norm: 4.0 };
        assert_eq!(meter.report(4, 0.1), Some(expected));
        assert_eq!(meter.report(4, 0.1), None, "a report begins anew");
    }
}
