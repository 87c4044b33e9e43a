//! The graph of Soft Diffusion, section 3.3, and its shortest path.
//!
//! Nodes are ordered from clean to corrupted and edges lead forwards, so one sweep finds the shortest path.

use super::{Distances, ScheduleError};

/// A path through the graph.
#[derive(Debug, Clone, PartialEq)]
pub struct ShortestPath {
    /// Candidates on the path, first and last included.
    pub nodes: Vec<usize>,
    /// Length of each hop.
    pub hops: Vec<f64>,
    /// Sum of the hops.
    pub cost: f64,
}

impl ShortestPath {
    /// The longest hop.
    pub fn longest_hop(&self) -> f64 {
        self.hops.iter().copied().fold(0.0, f64::max)
    }
}

/// Costs closer than this, relatively, count as equal: sums of hops in another order round differently.
const TIE: f64 = 1e-12;

/// What a path to a node costs; compared by the sum of hops, then their number, then the sum of their squares.
#[derive(Clone, Copy)]
struct Label {
    cost: f64,
    squares: f64,
    hops: usize,
    previous: usize,
}

impl Label {
    fn extended(&self, from: usize, hop: f64) -> Label {
        let (cost, squares) = (self.cost + hop, self.squares + hop * hop);
        Label { cost, squares, hops: self.hops + 1, previous: from }
    }

    /// Distances along a one-parameter path are nearly additive, so ties are common. By the triangle inequality fewer
    /// hops would have won in exact arithmetic; among as many, even ones are best.
    fn better_than(&self, other: &Label) -> bool {
        let differ = |a: f64, b: f64| (a - b).abs() > TIE * a.abs().max(b.abs());
        if differ(self.cost, other.cost) {
            self.cost < other.cost
        } else if self.hops != other.hops {
            self.hops < other.hops
        } else {
            self.squares < other.squares
        }
    }
}

/// The shortest path from the first candidate to the last over hops of at most `max_hop`.
pub fn shortest_path(distances: &impl Distances, max_hop: f64) -> Result<ShortestPath, ScheduleError> {
    let count = distances.count();
    shortest_path_of(count, max_hop, |i, j| distances.within(i, j, max_hop), |i| i + 1..count)
        .ok_or_else(|| ScheduleError::Unreachable { max_hop, bottleneck: bottleneck(distances) })
}

/// The same on any graph whose edges lead from lower to higher nodes: `next(i)` lists where i may lead, `hop(i, j)` is the
/// length where there is an edge.
pub fn shortest_path_of<N: Iterator<Item = usize>>(
    count: usize,
    max_hop: f64,
    hop: impl Fn(usize, usize) -> Option<f64>,
    next: impl Fn(usize) -> N,
) -> Option<ShortestPath> {
    let mut labels: Vec<Option<Label>> = vec![None; count];
    labels[0] = Some(Label { cost: 0.0, squares: 0.0, hops: 0, previous: 0 });
    for i in 0..count {
        let Some(label) = labels[i] else { continue };
        for j in next(i) {
            let Some(length) = hop(i, j).filter(|&length| length <= max_hop) else { continue };
            let extended = label.extended(i, length);
            if labels[j].is_none_or(|best| extended.better_than(&best)) {
                labels[j] = Some(extended);
            }
        }
    }
    let mut nodes = vec![count - 1];
    let cost = labels[count - 1]?.cost;
    while nodes[nodes.len() - 1] != 0 {
        nodes.push(labels[nodes[nodes.len() - 1]]?.previous);
    }
    nodes.reverse();
    let hops = nodes.windows(2).map(|pair| hop(pair[0], pair[1])).collect::<Option<Vec<f64>>>()?;
    Some(ShortestPath { nodes, hops, cost })
}

/// The shortest path of exactly `knots` nodes over hops of at most `max_hop`.
pub(super) fn shortest_path_of_length(distances: &impl Distances, max_hop: f64, knots: usize) -> Option<ShortestPath> {
    let count = distances.count();
    let next = |i: usize| (i + 1..count).filter_map(move |j| distances.within(i, j, max_hop).map(|length| (j, length)));
    path_of_length(count, knots, next)
}

/// The same on any graph whose edges lead from lower to higher nodes: `next(i)` lists where i leads, and how far.
pub(super) fn path_of_length<N: Iterator<Item = (usize, f64)>>(
    count: usize,
    knots: usize,
    next: impl Fn(usize) -> N,
) -> Option<ShortestPath> {
    let mut layers: Vec<Vec<Option<Label>>> = vec![vec![None; count]];
    layers[0][0] = Some(Label { cost: 0.0, squares: 0.0, hops: 0, previous: 0 });
    for layer in 1..knots {
        let mut reached: Vec<Option<Label>> = vec![None; count];
        for (i, label) in layers[layer - 1].iter().enumerate() {
            let Some(label) = label else { continue };
            for (j, length) in next(i) {
                let extended = label.extended(i, length);
                if reached[j].is_none_or(|best| extended.better_than(&best)) {
                    reached[j] = Some(extended);
                }
            }
        }
        layers.push(reached);
    }
    let cost = layers[knots - 1][count - 1]?.cost;
    let mut nodes = vec![count - 1];
    for layer in (1..knots).rev() {
        nodes.push(layers[layer][nodes[nodes.len() - 1]]?.previous);
    }
    nodes.reverse();
    let hop = |pair: &[usize]| next(pair[0]).find(|(j, _)| *j == pair[1]).map(|(_, length)| length);
    let hops = nodes.windows(2).map(hop).collect::<Option<_>>()?;
    Some(ShortestPath { nodes, hops, cost })
}

/// The smallest `max_hop` that leaves a path: the least longest hop of any path.
fn bottleneck(distances: &impl Distances) -> f64 {
    let count = distances.count();
    let mut longest = vec![f64::INFINITY; count];
    longest[0] = 0.0;
    for i in 0..count {
        for j in i + 1..count {
            if let Some(length) = distances.within(i, j, f64::INFINITY) {
                longest[j] = longest[j].min(longest[i].max(length));
            }
        }
    }
    longest[count - 1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::Matrix;
    use softdiff_engine::rng::RandomStream;

    fn random_graph(stream: &mut RandomStream, count: usize, metric: bool) -> Matrix {
        let points: Vec<[f64; 2]> = (0..count).map(|_| [stream.normal(), stream.normal()]).collect();
        let mut matrix = Matrix::zeros(count, count);
        for i in 0..count {
            for j in i + 1..count {
                let [dx, dy] = [points[i][0] - points[j][0], points[i][1] - points[j][1]];
                let value = if metric { dx.hypot(dy) } else { stream.uniform() };
                (matrix[(i, j)], matrix[(j, i)]) = (value, value);
            }
        }
        matrix
    }

    /// Every subset of inner nodes is a path.
    fn best_by_trying_all(distances: &Matrix, max_hop: f64, knots: Option<usize>) -> Option<f64> {
        let last = distances.rows() - 1;
        let mut best: Option<f64> = None;
        for subset in 0..1u32 << (last - 1) {
            if knots.is_some_and(|knots| subset.count_ones() as usize + 2 != knots) {
                continue;
            }
            let inner = (1..last).filter(|node| subset >> (node - 1) & 1 == 1);
            let nodes: Vec<usize> = std::iter::once(0).chain(inner).chain([last]).collect();
            let hops: Vec<f64> = nodes.windows(2).map(|pair| distances[(pair[0], pair[1])]).collect();
            if hops.iter().all(|&hop| hop <= max_hop) {
                let cost = hops.iter().sum();
                best = Some(best.map_or(cost, |b: f64| b.min(cost)));
            }
        }
        best
    }

    #[test]
    fn the_shortest_path_is_the_best_of_all_on_1000_random_graphs() {
        let mut stream = RandomStream::new(1, "graphs");
        for case in 0..1000 {
            let count = 2 + case % 11;
            let distances = random_graph(&mut stream, count, case % 2 == 0);
            let max_hop = stream.uniform() * 1.5;
            match (shortest_path(&distances, max_hop), best_by_trying_all(&distances, max_hop, None)) {
                (Ok(path), Some(best)) => {
                    assert!((path.cost - best).abs() < 1e-12, "case {case}");
                    assert!(path.longest_hop() <= max_hop);
                }
                (Err(ScheduleError::Unreachable { bottleneck, .. }), None) => {
                    assert!(bottleneck > max_hop && shortest_path(&distances, bottleneck).is_ok());
                }
                (found, expected) => panic!("case {case}: {found:?} instead of {expected:?}"),
            }
            let knots = 2 + case % count.clamp(3, 6);
            let exact = shortest_path_of_length(&distances, max_hop, knots).map(|path| path.cost);
            match (exact, best_by_trying_all(&distances, max_hop, Some(knots))) {
                (Some(found), Some(best)) => assert!((found - best).abs() < 1e-12, "case {case}"),
                (found, best) => assert_eq!(found, best, "case {case}"),
            }
        }
    }

    #[test]
    fn a_longer_limit_never_makes_the_path_dearer() {
        let mut stream = RandomStream::new(2, "limits");
        for _ in 0..50 {
            let distances = random_graph(&mut stream, 20, false);
            let costs: Vec<f64> = (1..=20)
                .filter_map(|k| shortest_path(&distances, k as f64 / 20.0).ok())
                .map(|path| path.cost)
                .collect();
            assert!(costs.windows(2).all(|w| w[1] <= w[0] + 1e-12));
        }
    }

    #[test]
    fn among_equal_paths_few_and_even_hops_win_and_hops_of_no_length_are_avoided() {
        // Candidates on a line at 0, 0, 1, 2, 4: every path costs 4.
        let at = [0.0, 0.0, 1.0, 2.0, 4.0f64];
        let distances = Matrix::from_fn(5, 5, |i, j| (at[i] - at[j]).abs());
        assert_eq!(shortest_path(&distances, 3.0).unwrap().nodes, [0, 3, 4]);
        assert_eq!(shortest_path_of_length(&distances, 3.0, 4).unwrap().nodes, [0, 2, 3, 4]);
    }
}
