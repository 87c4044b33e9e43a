//! Which checkpoints stay when a new one is there.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Which checkpoints to keep; one that any rule keeps is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// The newest so many, at least one.
    pub last: usize,
    /// Those whose step is a multiple of this.
    pub every: Option<u64>,
    /// The best by the evaluation's metric.
    pub best: Option<Better>,
}

/// Which of two values of a metric is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// As for FID.
    Lower,
    /// As for PSNR.
    Higher,
}

impl Default for Retention {
    /// The newest three: one may be damaged and one may be in doubt.
    fn default() -> Self {
        Retention { last: 3, every: None, best: None }
    }
}

impl Retention {
    /// The steps to delete out of `steps`, when `newest` was just saved.
    ///
    /// Steps beyond `newest` belong to checkpoints that could not be read on resuming: they neither count nor go.
    pub fn to_delete(&self, steps: &BTreeSet<u64>, newest: u64, scores: &BTreeMap<u64, f64>) -> Vec<u64> {
        let recent: BTreeSet<u64> = steps.range(..=newest).rev().take(self.last.max(1)).copied().collect();
        let best = self.best(steps, newest, scores);
        let stays = |step: &u64| {
            recent.contains(step) || self.every.is_some_and(|m| m > 0 && step.is_multiple_of(m)) || best == Some(*step)
        };
        steps.range(..=newest).filter(|step| !stays(step)).copied().collect()
    }

    /// The best step that has both a checkpoint and a finite score; the earliest of equals.
    pub fn best(&self, steps: &BTreeSet<u64>, newest: u64, scores: &BTreeMap<u64, f64>) -> Option<u64> {
        let better = self.best?;
        let scored = steps.range(..=newest).filter_map(|step| scores.get(step).map(|score| (*step, *score)));
        scored
            .filter(|(_, score)| score.is_finite())
            .min_by(|(_, a), (_, b)| match better {
                Better::Lower => a.total_cmp(b),
                Better::Higher => b.total_cmp(a),
            })
            .map(|(step, _)| step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(steps: &[u64]) -> BTreeSet<u64> {
        steps.iter().copied().collect()
    }

    #[test]
    fn the_newest_stay_and_the_rest_goes() {
        let rule = Retention { last: 2, every: None, best: None };
        assert_eq!(rule.to_delete(&steps(&[10, 20, 30, 40]), 40, &BTreeMap::new()), [10, 20]);
        let none = Retention { last: 0, every: None, best: None };
        assert_eq!(none.to_delete(&steps(&[10, 20]), 20, &BTreeMap::new()), [10], "the new one always stays");
    }

    #[test]
    fn every_m_th_stays() {
        let rule = Retention { last: 1, every: Some(20), best: None };
        assert_eq!(rule.to_delete(&steps(&[10, 20, 30, 40, 50, 60]), 60, &BTreeMap::new()), [10, 30, 50]);
    }

    #[test]
    fn the_best_by_the_metric_stays() {
        let scores = BTreeMap::from([(10, 9.0), (20, 3.0), (30, 5.0), (40, f64::NAN), (99, 0.1)]);
        let rule = |better| Retention { last: 1, every: None, best: Some(better) };
        assert_eq!(rule(Better::Lower).to_delete(&steps(&[10, 20, 30, 40, 50]), 50, &scores), [10, 30, 40]);
        assert_eq!(rule(Better::Higher).to_delete(&steps(&[10, 20, 30, 40, 50]), 50, &scores), [20, 30, 40]);
    }

    #[test]
    fn unreadable_ones_from_a_lost_future_neither_count_nor_go() {
        let rule = Retention { last: 2, every: None, best: None };
        assert!(rule.to_delete(&steps(&[100, 150, 200]), 150, &BTreeMap::new()).is_empty());
    }
}
