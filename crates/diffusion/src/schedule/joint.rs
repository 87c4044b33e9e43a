//! Blur and noise scheduled together on a two-dimensional graph: what the paper leaves as future work (appendix, "Noise
//! changing throughout the diffusion": "jointly selecting the blur and the noise scheduling with our framework").

use super::ScheduleError;
use super::graph::{ShortestPath, path_of_length, shortest_path_of};
use crate::linalg::Matrix;

/// Nodes (corruption level a, noise level b); edges never lower either.
#[derive(Debug, Clone)]
pub struct JointGrid {
    /// Squared distances between corruption levels on the same images.
    corruption: Matrix,
    /// Noise levels, rising.
    sigmas: Vec<f64>,
    /// Values per image.
    dimension: f64,
}

/// A path from (first, first) to (last, last).
#[derive(Debug, Clone, PartialEq)]
pub struct JointPath {
    /// (corruption level, noise level) of each knot, as indices.
    pub nodes: Vec<(usize, usize)>,
    /// Length of each hop.
    pub hops: Vec<f64>,
    /// Sum of the hops.
    pub cost: f64,
    /// The limit it was found under.
    pub max_hop: f64,
}

impl JointGrid {
    /// From squared distances of corruption levels, noise levels, and the number of values per image.
    pub fn new(corruption: Matrix, sigmas: Vec<f64>, dimension: usize) -> Result<Self, ScheduleError> {
        if let Some(index) = (1..sigmas.len()).find(|&k| sigmas[k].is_nan() || sigmas[k] <= sigmas[k - 1]) {
            return Err(ScheduleError::Candidates { index, level: sigmas[index], previous: sigmas[index - 1] });
        }
        if corruption.rows() < 2 || corruption.rows() != corruption.cols() || sigmas.is_empty() {
            return Err(ScheduleError::Knots { knots: 2, candidates: corruption.rows().min(sigmas.len()) });
        }
        Ok(JointGrid { corruption, sigmas, dimension: dimension as f64 })
    }

    /// W2 under the coupling that shares image and noise: `sqrt(d(a,a')^2 + dim (sigma - sigma')^2)`.
    ///
    /// An upper bound of the true distance, and exact in each of the two directions by itself.
    pub fn distance(&self, (a, b): (usize, usize), (c, d): (usize, usize)) -> f64 {
        let noise = self.sigmas[b] - self.sigmas[d];
        (self.corruption[(a, c)] + self.dimension * noise * noise).sqrt()
    }

    /// The shortest path over hops of at most `max_hop`.
    pub fn shortest_path(&self, max_hop: f64) -> Result<JointPath, ScheduleError> {
        let (rows, width) = (self.corruption.rows(), self.sigmas.len());
        let place = |node: usize| (node / width, node % width);
        let next = |node: usize| {
            let (a, b) = place(node);
            (a..rows).flat_map(move |c| (b..width).map(move |d| c * width + d)).filter(move |&other| other != node)
        };
        let hop = |i: usize, j: usize| Some(self.distance(place(i), place(j)));
        let Some(ShortestPath { nodes, hops, cost }) = shortest_path_of(rows * width, max_hop, hop, next) else {
            return Err(ScheduleError::Unreachable { max_hop, bottleneck: self.longest_single_step() });
        };
        Ok(JointPath { nodes: nodes.into_iter().map(place).collect(), hops, cost, max_hop })
    }

    /// The shortest path of exactly `knots` nodes under the smallest `max_hop` that allows one, to 1e-6 of it, by bisection;
    /// as [`super::find_knots`] on one axis.
    pub fn find_knots(&self, knots: usize) -> Result<JointPath, ScheduleError> {
        let (rows, width) = (self.corruption.rows(), self.sigmas.len());
        // A path that never falls takes every row and every column once at most.
        if knots < 2 || knots > rows + width - 1 {
            return Err(ScheduleError::Knots { knots, candidates: rows + width - 1 });
        }
        let whole = self.distance((0, 0), (rows - 1, width - 1));
        let (mut low, mut high) = (0.0, 1.5 * whole / (knots - 1) as f64);
        let mut best = self.path_of_length(high, knots);
        while best.is_none() && high <= whole {
            (low, high) = (high, 2.0 * high);
            best = self.path_of_length(high, knots);
        }
        let mut best = best.ok_or(ScheduleError::Knots { knots, candidates: rows + width - 1 })?;
        while high - low > 1e-6 * high {
            let middle = 0.5 * (low + high);
            match self.path_of_length(middle, knots) {
                Some(path) => (high, best) = (middle, path),
                None => low = middle,
            }
        }
        Ok(best)
    }

    fn path_of_length(&self, max_hop: f64, knots: usize) -> Option<JointPath> {
        let (rows, width) = (self.corruption.rows(), self.sigmas.len());
        let place = |node: usize| (node / width, node % width);
        let edges: Vec<Vec<(usize, f64)>> = (0..rows * width)
            .map(|node| {
                let (a, b) = place(node);
                let level = (a..rows).filter(|&c| self.corruption[(a, c)] <= max_hop * max_hop);
                let all = level.flat_map(|c| (b..width).map(move |d| (c, d)));
                let hops = all.map(|(c, d)| (c * width + d, self.distance((a, b), (c, d))));
                hops.filter(|&(other, hop)| other != node && hop <= max_hop).collect()
            })
            .collect();
        let ShortestPath { nodes, hops, cost } =
            path_of_length(rows * width, knots, |node| edges[node].iter().copied())?;
        Some(JointPath { nodes: nodes.into_iter().map(place).collect(), hops, cost, max_hop })
    }

    /// A limit that surely leaves a path: the longest step between neighbours of the grid.
    fn longest_single_step(&self) -> f64 {
        let blur = (1..self.corruption.rows()).map(|a| self.distance((a - 1, 0), (a, 0)));
        let noise = (1..self.sigmas.len()).map(|b| self.distance((0, b - 1), (0, b)));
        blur.chain(noise).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff_engine::rng::RandomStream;

    fn grid(rows: usize, sigmas: usize, stream: &mut RandomStream) -> JointGrid {
        let mut at: Vec<f64> = (0..rows).map(|_| 3.0 * stream.uniform()).collect();
        at.sort_by(f64::total_cmp);
        let corruption = Matrix::from_fn(rows, rows, |i, j| (at[i] - at[j]).powi(2));
        let sigmas = (0..sigmas).map(|k| 0.1 * (k as f64 + stream.uniform())).collect();
        JointGrid::new(corruption, sigmas, 7).unwrap()
    }

    fn best_by_trying_all(grid: &JointGrid, from: (usize, usize), max_hop: f64) -> Option<f64> {
        let last = (grid.corruption.rows() - 1, grid.sigmas.len() - 1);
        if from == last {
            return Some(0.0);
        }
        let mut best: Option<f64> = None;
        for a in from.0..=last.0 {
            for b in from.1..=last.1 {
                let hop = grid.distance(from, (a, b));
                if (a, b) == from || hop > max_hop {
                    continue;
                }
                if let Some(rest) = best_by_trying_all(grid, (a, b), max_hop) {
                    best = Some(best.map_or(hop + rest, |found: f64| found.min(hop + rest)));
                }
            }
        }
        best
    }

    #[test]
    fn the_joint_path_is_the_best_of_all_on_200_random_grids() {
        let mut stream = RandomStream::new(3, "joint");
        for case in 0..200 {
            let grid = grid(2 + case % 3, 1 + case % 4, &mut stream);
            let max_hop = 0.3 + 2.0 * stream.uniform();
            match (grid.shortest_path(max_hop), best_by_trying_all(&grid, (0, 0), max_hop)) {
                (Ok(path), Some(best)) => assert!((path.cost - best).abs() < 1e-12, "case {case}"),
                (Err(ScheduleError::Unreachable { bottleneck, .. }), None) => {
                    assert!(grid.shortest_path(bottleneck).is_ok());
                }
                (found, best) => panic!("case {case}: {found:?} instead of {best:?}"),
            }
        }
    }

    #[test]
    fn knots_are_found_and_neither_level_ever_falls() {
        let grid = grid(40, 12, &mut RandomStream::new(4, "joint"));
        for knots in [2, 3, 10, 32, 51] {
            let path = grid.find_knots(knots).unwrap();
            assert_eq!(path.nodes.len(), knots);
            assert_eq!((path.nodes[0], path.nodes[knots - 1]), ((0, 0), (39, 11)));
        }
        assert!(matches!(grid.find_knots(52), Err(ScheduleError::Knots { candidates: 51, .. })));
        let path = grid.find_knots(10).unwrap();
        // Under the smallest limit there is no slack: hops are nearly even.
        assert!(path.max_hop < 1.3 * path.cost / 9.0, "{path:?}");
        assert!(path.nodes.windows(2).all(|w| w[0].0 <= w[1].0 && w[0].1 <= w[1].1));
        assert!(path.hops.iter().all(|&hop| hop <= path.max_hop));
    }
}
