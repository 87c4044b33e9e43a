//! Tuning `max_hop` until the shortest path has the knots asked for (Soft Diffusion, appendix "Schedulings": "we tune
//! epsilon such that the shortest path contains 32 distributions").

use super::graph::{ShortestPath, shortest_path, shortest_path_of_length};
use super::{Distances, ScheduleError};

/// A path of the right number of knots.
#[derive(Debug, Clone, PartialEq)]
pub struct KnotSearch {
    /// The path.
    pub path: ShortestPath,
    /// The smallest limit that allows so many knots.
    pub max_hop: f64,
}

/// The shortest path of exactly `knots` nodes under the smallest `max_hop` that allows one, by bisection.
///
/// Taking any limit whose shortest path happens to have that many nodes is not enough: distances are nearly additive, so
/// the shortest path takes hops as long as allowed and spends the slack on tiny ones, in which nothing changes. Under the
/// smallest limit there is no slack.
pub fn find_knots(distances: &impl Distances, knots: usize) -> Result<KnotSearch, ScheduleError> {
    let count = distances.count();
    if knots < 2 || knots > count {
        return Err(ScheduleError::Knots { knots, candidates: count });
    }
    // Paths change only where `max_hop` passes one of the distances, so the bisection runs over those.
    let limits = limits_up_to_few_enough_knots(distances, knots)?;
    let at = |index: usize| shortest_path_of_length(distances, limits[index], knots);
    // More edges never take a path away, so bisection is exact.
    let (mut low, mut high) = (0, limits.len() - 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if at(middle).is_some() { high = middle } else { low = middle + 1 }
    }
    let path = at(high).ok_or(ScheduleError::Knots { knots, candidates: count })?;
    Ok(KnotSearch { path, max_hop: limits[high] })
}

/// All distances up to one at which the shortest path has at most `knots` nodes, rising.
fn limits_up_to_few_enough_knots(distances: &impl Distances, knots: usize) -> Result<Vec<f64>, ScheduleError> {
    let count = distances.count();
    distances.prepare(0.0)?;
    let end_to_end = |limit: f64| distances.within(0, count - 1, limit);
    let mut limit = end_to_end(f64::INFINITY).map_or(1.0, |d| 1.5 * d / (knots - 1) as f64);
    loop {
        distances.prepare(limit)?;
        if shortest_path(distances, limit).is_ok_and(|path| path.nodes.len() <= knots) {
            break;
        }
        limit *= 1.5;
    }
    let pairs = (0..count).flat_map(|i| (i + 1..count).map(move |j| (i, j)));
    let mut limits: Vec<f64> = pairs.filter_map(|(i, j)| distances.within(i, j, limit)).collect();
    limits.sort_by(f64::total_cmp);
    limits.dedup();
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::Matrix;
    use crate::schedule::LazyDistances;

    /// Distances along a bent line in the plane: nearly additive, as those of blurs are.
    fn bent_line(count: usize) -> Matrix {
        let point = |i: usize| {
            let s = (i as f64 / count as f64).powi(2);
            [(2.0 * s).sin(), s]
        };
        Matrix::from_fn(count, count, |i, j| (point(i)[0] - point(j)[0]).hypot(point(i)[1] - point(j)[1]))
    }

    #[test]
    fn exactly_32_knots_are_found_of_256_and_hops_are_nearly_even() {
        let distances = bent_line(256);
        let found = find_knots(&distances, 32).unwrap();
        assert_eq!(found.path.nodes.len(), 32);
        assert!(found.path.longest_hop() <= found.max_hop);
        let mean = found.path.cost / 31.0;
        assert!(found.max_hop < 1.1 * mean, "{} against a mean of {mean}", found.max_hop);
    }

    #[test]
    fn every_number_of_knots_can_be_had() {
        let distances = bent_line(24);
        for knots in 2..=24 {
            assert_eq!(find_knots(&distances, knots).unwrap().path.nodes.len(), knots);
        }
        for knots in [0, 1, 25] {
            assert!(matches!(find_knots(&distances, knots), Err(ScheduleError::Knots { .. })));
        }
    }

    #[test]
    fn lazy_distances_lead_to_the_same_knots() {
        let full = bent_line(128);
        let lazy = LazyDistances::new(128, true, &|_, _| {}, |i, j| Ok(full[(i, j)]));
        assert_eq!(find_knots(&lazy, 16).unwrap(), find_knots(&full, 16).unwrap());
        assert!(lazy.measured() < 128 * 127 / 4);
    }

    #[test]
    fn the_search_among_256_nodes_takes_milliseconds() {
        let distances = bent_line(256);
        let start = std::time::Instant::now();
        shortest_path(&distances, 0.1).unwrap();
        assert!(start.elapsed().as_millis() < 10);
    }
}
