//! The exact optimal matching of two equally large clouds.

use super::{Estimate, TransportError, check_matched, squared_distances};
use crate::linalg::Matrix;

/// An optimal one-to-one matching.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// Mean cost of the matching. Error: the gap to the dual problem's value, which certifies optimality.
    pub cost: Estimate,
    /// The column matched to each row.
    pub column_of_row: Vec<usize>,
}

/// W2^2 of two equally large clouds, exactly.
pub fn exact(x: &Matrix, y: &Matrix) -> Result<Estimate, TransportError> {
    check_matched("exact assignment", x, y)?;
    Ok(assignment(&squared_distances(x, y)?)?.cost)
}

/// The cheapest matching of rows to columns, by shortest augmenting paths (Jonker and Volgenant 1987), O(n^3).
pub fn assignment(cost: &Matrix) -> Result<Assignment, TransportError> {
    let n = cost.rows();
    if n != cost.cols() {
        return Err(TransportError::Counts { method: "exact assignment", left: n, right: cost.cols() });
    }
    if n == 0 {
        return Err(TransportError::Empty { points: 0, dimensions: 0 });
    }
    if let Some(at) = cost.values().iter().position(|v| !v.is_finite()) {
        return Err(TransportError::NotFinite { point: at / n, coordinate: at % n, value: cost.values()[at] });
    }
    let mut search = Search::reduced(cost);
    let free: Vec<usize> = (0..n).filter(|&row| search.column_of_row[row] == NONE).collect();
    for &row in &free {
        search.augment(cost, row);
    }
    let column_of_row = search.column_of_row;
    let scale = 1.0 / n as f64;
    let primal: f64 = column_of_row.iter().enumerate().map(|(row, &col)| cost[(row, col)]).sum::<f64>() * scale;
    let dual = (search.row_price.iter().sum::<f64>() + search.column_price.iter().sum::<f64>()) * scale;
    let error = (primal - dual).abs();
    let cost = Estimate { value: primal, converged: true, iterations: free.len(), error };
    Ok(Assignment { cost, column_of_row })
}

const NONE: usize = usize::MAX;

/// Prices with `cost - row_price - column_price >= 0`, and zero on every match so far.
struct Search {
    row_price: Vec<f64>,
    column_price: Vec<f64>,
    column_of_row: Vec<usize>,
    row_of_column: Vec<usize>,
}

impl Search {
    /// Column and row reduction, and the matches that come for free.
    fn reduced(cost: &Matrix) -> Self {
        let n = cost.rows();
        let mut column_price = vec![f64::INFINITY; n];
        for i in 0..n {
            column_price.iter_mut().zip(cost.row(i)).for_each(|(v, c)| *v = v.min(*c));
        }
        let mut search = Search {
            row_price: vec![0.0; n],
            column_price,
            column_of_row: vec![NONE; n],
            row_of_column: vec![NONE; n],
        };
        for i in 0..n {
            let reduced = cost.row(i).iter().zip(&search.column_price).map(|(c, v)| c - v);
            let (j, least) =
                reduced.enumerate().fold((0, f64::INFINITY), |best, (j, r)| if r < best.1 { (j, r) } else { best });
            search.row_price[i] = least;
            if search.row_of_column[j] == NONE {
                (search.row_of_column[j], search.column_of_row[i]) = (i, j);
            }
        }
        search
    }

    /// Matches one more row along the cheapest alternating path (Dijkstra on reduced costs).
    fn augment(&mut self, cost: &Matrix, start: usize) {
        let n = cost.rows();
        let mut distance = vec![f64::INFINITY; n];
        let mut previous_row = vec![start; n];
        // Columns not yet reached for good come first.
        let mut columns: Vec<usize> = (0..n).collect();
        let mut scanned: Vec<(usize, usize)> = Vec::new();
        let (mut row, mut reached) = (start, 0.0);
        let end = loop {
            let base = reached - self.row_price[row];
            let costs = cost.row(row);
            let (mut nearest, mut least) = (0, f64::INFINITY);
            for (place, &j) in columns.iter().enumerate() {
                let through = base + costs[j] - self.column_price[j];
                if through < distance[j] {
                    distance[j] = through;
                    previous_row[j] = row;
                }
                // Among equals a free column ends the search.
                if distance[j] < least || (distance[j] == least && self.row_of_column[j] == NONE) {
                    (nearest, least) = (place, distance[j]);
                }
            }
            let column = columns.swap_remove(nearest);
            reached = least;
            if self.row_of_column[column] == NONE {
                break column;
            }
            row = self.row_of_column[column];
            scanned.push((row, column));
        };
        self.row_price[start] += reached;
        for (row, column) in scanned {
            self.row_price[row] += reached - distance[column];
            self.column_price[column] -= reached - distance[column];
        }
        let mut column = end;
        loop {
            let row = previous_row[column];
            self.row_of_column[column] = row;
            column = std::mem::replace(&mut self.column_of_row[row], column);
            if row == start {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff_engine::rng::RandomStream;

    fn cheapest_by_trying_all(cost: &Matrix, row: usize, used: &mut Vec<bool>) -> f64 {
        if row == cost.rows() {
            return 0.0;
        }
        let mut best = f64::INFINITY;
        for column in 0..cost.cols() {
            if !used[column] {
                used[column] = true;
                best = best.min(cost[(row, column)] + cheapest_by_trying_all(cost, row + 1, used));
                used[column] = false;
            }
        }
        best
    }

    #[test]
    fn the_matching_is_the_best_of_all_in_300_random_cases() {
        let mut stream = RandomStream::new(1, "assignment");
        for case in 0..300 {
            let n = 1 + case % 7;
            // Every third case has many equal costs.
            let draw = |v: f64| if case % 3 == 0 { (v * 2.0).round() } else { v };
            let cost = Matrix::from_fn(n, n, |_, _| draw(stream.normal()));
            let found = assignment(&cost).unwrap();
            let best = cheapest_by_trying_all(&cost, 0, &mut vec![false; n]) / n as f64;
            assert!((found.cost.value - best).abs() < 1e-12, "case {case}");
            assert!(found.cost.error < 1e-12);
            let mut columns = found.column_of_row.clone();
            columns.sort_unstable();
            assert_eq!(columns, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn on_a_line_the_matching_keeps_the_order() {
        let mut stream = RandomStream::new(2, "line");
        let mut x = stream.normals(200);
        let mut y: Vec<f64> = stream.normals(200).iter().map(|v| 3.0 * v + 1.0).collect();
        let cloud = |v: &[f64]| Matrix::from_vec(200, 1, v.to_vec()).unwrap();
        let found = exact(&cloud(&x), &cloud(&y)).unwrap();
        x.sort_by(f64::total_cmp);
        y.sort_by(f64::total_cmp);
        let sorted: f64 = x.iter().zip(&y).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / 200.0;
        assert!((found.value - sorted).abs() < 1e-11 * sorted);
    }

    #[test]
    fn a_matching_of_unequal_clouds_is_refused() {
        assert!(matches!(assignment(&Matrix::zeros(2, 3)), Err(TransportError::Counts { left: 2, right: 3, .. })));
    }
}
