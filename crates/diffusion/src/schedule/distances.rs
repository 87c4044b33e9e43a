//! Distances between candidates, measured when they are needed.

use super::ScheduleError;
use crate::linalg::Matrix;
use rayon::prelude::*;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Called with (pairs measured, pairs asked for) before and after each pair, so that one that unwinds ends the rest unmeasured.
pub type ScheduleProgress<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// A symmetric table of distances between ordered candidates.
pub trait Distances {
    /// How many candidates there are.
    fn count(&self) -> usize;

    /// The distance of i and j if it is at most `limit`.
    fn within(&self, i: usize, j: usize, limit: f64) -> Option<f64>;

    /// Makes sure that [`Distances::within`] can answer up to `limit`.
    fn prepare(&self, limit: f64) -> Result<(), ScheduleError>;
}

/// A full table.
impl Distances for Matrix {
    fn count(&self) -> usize {
        self.rows()
    }

    fn within(&self, i: usize, j: usize, limit: f64) -> Option<f64> {
        Some(self[(i, j)]).filter(|&d| d <= limit)
    }

    fn prepare(&self, _limit: f64) -> Result<(), ScheduleError> {
        for i in 0..self.rows() {
            for j in 0..i {
                check(i, j, self[(i, j)])?;
            }
        }
        Ok(())
    }
}

fn check(i: usize, j: usize, value: f64) -> Result<f64, ScheduleError> {
    if value >= 0.0 && value.is_finite() { Ok(value) } else { Err(ScheduleError::Distance { i, j, value }) }
}

/// A table that measures pairs in parallel, and only those that can lie within the limit.
///
/// Where the triangle inequality holds, `|d(0,i) - d(0,j)|` and `|d(i,last) - d(j,last)|` bound d(i, j) from below, and
/// pairs beyond the limit are never measured: of 256 levels about a tenth is.
pub struct LazyDistances<'a, M> {
    count: usize,
    measure: M,
    triangle: bool,
    progress: &'a ScheduleProgress<'a>,
    known: Vec<OnceLock<f64>>,
}

impl<'a, M> LazyDistances<'a, M>
where
    M: Fn(usize, usize) -> Result<f64, ScheduleError> + Sync,
{
    /// A table of `count` candidates; `measure(i, j)` is called once at most for each i < j.
    pub fn new(count: usize, triangle: bool, progress: &'a ScheduleProgress<'a>, measure: M) -> Self {
        let known = (0..count * count.saturating_sub(1) / 2).map(|_| OnceLock::new()).collect();
        LazyDistances { count, measure, triangle, progress, known }
    }

    /// How many pairs have been measured.
    pub fn measured(&self) -> usize {
        self.known.iter().filter(|cell| cell.get().is_some()).count()
    }

    fn cell(&self, i: usize, j: usize) -> &OnceLock<f64> {
        let (low, high) = (i.min(j), i.max(j));
        &self.known[high * (high - 1) / 2 + low]
    }

    fn get(&self, i: usize, j: usize) -> Option<f64> {
        if i == j { Some(0.0) } else { self.cell(i, j).get().copied() }
    }

    fn measure_all(&self, mut pairs: Vec<(usize, usize)>) -> Result<(), ScheduleError> {
        pairs.retain(|&(i, j)| self.get(i, j).is_none());
        let done = AtomicUsize::new(0);
        let total = pairs.len();
        pairs.par_iter().try_for_each(|&(i, j)| {
            (self.progress)(done.load(Ordering::Relaxed), total);
            let value = check(i, j, (self.measure)(i, j)?)?;
            self.cell(i, j).get_or_init(|| value);
            (self.progress)(done.fetch_add(1, Ordering::Relaxed) + 1, total);
            Ok(())
        })
    }

    /// A bound of the distance from below.
    fn at_least(&self, i: usize, j: usize) -> f64 {
        let through = |anchor: usize| match (self.get(anchor, i), self.get(anchor, j)) {
            (Some(a), Some(b)) if self.triangle => (a - b).abs(),
            _ => 0.0,
        };
        // The bound itself is rounded; a pair at the very limit must not be lost.
        through(0).max(through(self.count - 1)) * (1.0 - 1e-9)
    }
}

impl<M> Distances for LazyDistances<'_, M>
where
    M: Fn(usize, usize) -> Result<f64, ScheduleError> + Sync,
{
    fn count(&self) -> usize {
        self.count
    }

    fn within(&self, i: usize, j: usize, limit: f64) -> Option<f64> {
        self.get(i, j).filter(|&d| d <= limit)
    }

    fn prepare(&self, limit: f64) -> Result<(), ScheduleError> {
        let last = self.count - 1;
        if self.triangle {
            let anchored = (1..=last).map(|j| (0, j)).chain((1..last).map(|i| (i, last)));
            self.measure_all(anchored.collect())?;
        }
        let pairs = (0..self.count).flat_map(|i| (i + 1..self.count).map(move |j| (i, j)));
        self.measure_all(pairs.filter(|&(i, j)| self.at_least(i, j) <= limit).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pairs_that_can_lie_within_the_limit_are_measured() {
        let at = |i: usize| (i as f64).powf(1.5);
        let lazy = LazyDistances::new(100, true, &|_, _| {}, |i, j| Ok((at(i) - at(j)).abs()));
        lazy.prepare(30.0).unwrap();
        assert!(lazy.measured() < 1000, "{}", lazy.measured());
        for i in 0..100 {
            for j in 0..i {
                let distance = (at(i) - at(j)).abs();
                assert_eq!(lazy.within(i, j, 30.0), Some(distance).filter(|&d| d <= 30.0));
            }
        }
    }

    #[test]
    fn progress_is_told_and_bad_distances_are_named() {
        let calls = AtomicUsize::new(0);
        let count = |_: usize, total: usize| {
            calls.fetch_add(1, Ordering::Relaxed);
            assert_eq!(total, 10);
        };
        let lazy = LazyDistances::new(5, false, &count, |i, j| Ok((j - i) as f64));
        lazy.prepare(1.0).unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 20);
        let broken = LazyDistances::new(3, false, &|_, _| {}, |_, j| Ok(if j == 2 { f64::NAN } else { 1.0 }));
        assert!(matches!(broken.prepare(1.0), Err(ScheduleError::Distance { j: 2, .. })));
    }

    #[test]
    fn a_progress_that_unwinds_leaves_at_most_the_pair_under_way_on_each_thread() {
        let unwind_after_one = |done: usize, _: usize| {
            if done > 0 {
                std::panic::resume_unwind(Box::new("stopped"));
            }
        };
        let lazy = LazyDistances::new(100, false, &unwind_after_one, |i, j| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            Ok((j - i) as f64)
        });
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lazy.prepare(1.0)));
        assert!(ended.is_err());
        assert!(lazy.measured() <= rayon::current_num_threads(), "{} were measured", lazy.measured());
    }
}
