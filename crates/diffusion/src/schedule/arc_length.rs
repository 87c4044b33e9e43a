//! Levels at equal distances along the path of all candidates.

use super::ScheduleError;
use crate::curve::{Curve, Interpolation};

/// `knots` levels that cut the chain of candidates into pieces of equal length, `steps[k]` being the distance from
/// candidate k to k + 1.
///
/// In the limit of many candidates this is what the shortest path under a hop limit tends to, without its choice among
/// near ties.
pub fn equal_arc_length(levels: &[f64], steps: &[f64], knots: usize) -> Result<Vec<f64>, ScheduleError> {
    if knots < 2 || steps.len() + 1 != levels.len() {
        return Err(ScheduleError::Knots { knots, candidates: levels.len() });
    }
    let (mut arcs, mut along) = (vec![0.0], vec![levels[0]]);
    let mut total = 0.0;
    for (k, step) in steps.iter().enumerate() {
        total += step;
        // Levels no distance apart share one place; the last of them stands for it.
        if *step > 0.0 {
            arcs.push(total);
            along.push(levels[k + 1]);
        }
    }
    if total <= 0.0 || !total.is_finite() {
        return Err(ScheduleError::Distance { i: 0, j: levels.len() - 1, value: total });
    }
    let curve = Curve::new(arcs, along, Interpolation::Linear)?;
    Ok((0..knots).map(|k| curve.value(total * k as f64 / (knots - 1) as f64)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_equal_arcs_on_a_parabola_are_roots() {
        // Distance from level 0 to s is s^2.
        let levels: Vec<f64> = (0..=1000).map(|i| i as f64 / 1000.0).collect();
        let steps: Vec<f64> = levels.windows(2).map(|w| w[1] * w[1] - w[0] * w[0]).collect();
        let knots = equal_arc_length(&levels, &steps, 5).unwrap();
        for (k, level) in knots.iter().enumerate() {
            assert!((level - (k as f64 / 4.0).sqrt()).abs() < 1e-6);
        }
        assert_eq!((knots[0], knots[4]), (0.0, 1.0));
    }

    #[test]
    fn levels_that_change_nothing_are_passed_over() {
        let knots = equal_arc_length(&[0.0, 0.1, 0.2, 1.0], &[0.0, 0.0, 4.0], 3).unwrap();
        assert_eq!(knots, [0.0, 0.5, 1.0]);
        assert!(equal_arc_length(&[0.0, 1.0], &[0.0], 3).is_err());
    }
}
