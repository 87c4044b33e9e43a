//! Curves through knots: how a corruption level, or anything else, runs with time.
//!
//! Soft Diffusion extends the levels found by the scheduler to all t by linear interpolation (section 3.3); the monotone
//! cubic of Fritsch and Carlson (1980) is the smooth alternative, whose derivative has no jumps for a high-order sampler
//! to stumble over. Both stay between neighbouring knots, so a monotone schedule stays monotone.

use softdiff_engine::Hint;
use std::borrow::Cow;

/// How a curve runs between its knots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// Straight lines: the paper.
    #[default]
    Linear,
    /// Monotone cubic Hermite, continuous derivative.
    MonotoneCubic,
}

/// What is wrong with a curve's knots.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CurveError {
    /// Fewer than two knots, or lists of different length.
    #[error("a curve needs at least two knots and as many values as positions, not {positions} and {values}")]
    Count {
        /// Positions given.
        positions: usize,
        /// Values given.
        values: usize,
    },
    /// NaN or infinity.
    #[error("knot {index} is ({position}, {value})")]
    NotFinite {
        /// Which knot.
        index: usize,
        /// Its position.
        position: f64,
        /// Its value.
        value: f64,
    },
    /// Positions do not increase.
    #[error("positions must increase, but knot {index} at {position} does not lie after {previous}")]
    PositionsNotIncreasing {
        /// Which knot.
        index: usize,
        /// Its position.
        position: f64,
        /// The position before it.
        previous: f64,
    },
    /// Values fall.
    #[error("a level may not fall with time, but knot {index} has {value} after {previous}")]
    ValuesFall {
        /// Which knot.
        index: usize,
        /// Its value.
        value: f64,
        /// The value before it.
        previous: f64,
    },
}

impl Hint for CurveError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            CurveError::NotFinite { .. } => "both must be finite".into(),
            CurveError::PositionsNotIncreasing { .. } => "sort the knots".into(),
            CurveError::ValuesFall { .. } => "sort the levels".into(),
            _ => return None,
        })
    }
}

/// A non-decreasing curve through knots, constant outside them.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    positions: Vec<f64>,
    values: Vec<f64>,
    /// Slopes at the knots; empty for straight lines.
    slopes: Vec<f64>,
}

impl Curve {
    /// A curve through `(positions[i], values[i])`; positions increase, values do not fall.
    pub fn new(positions: Vec<f64>, values: Vec<f64>, interpolation: Interpolation) -> Result<Self, CurveError> {
        if positions.len() != values.len() || positions.len() < 2 {
            return Err(CurveError::Count { positions: positions.len(), values: values.len() });
        }
        for (index, (&position, &value)) in positions.iter().zip(&values).enumerate() {
            if !position.is_finite() || !value.is_finite() {
                return Err(CurveError::NotFinite { index, position, value });
            }
            if index > 0 && position <= positions[index - 1] {
                let previous = positions[index - 1];
                return Err(CurveError::PositionsNotIncreasing { index, position, previous });
            }
            if index > 0 && value < values[index - 1] {
                return Err(CurveError::ValuesFall { index, value, previous: values[index - 1] });
            }
        }
        let slopes = match interpolation {
            Interpolation::Linear => Vec::new(),
            Interpolation::MonotoneCubic => fritsch_carlson_slopes(&positions, &values),
        };
        Ok(Curve { positions, values, slopes })
    }

    /// A straight line from (0, `from`) to (1, `to`).
    pub fn straight(from: f64, to: f64) -> Result<Self, CurveError> {
        Self::new(vec![0.0, 1.0], vec![from, to], Interpolation::Linear)
    }

    /// Values at equal distances of time over [0, 1].
    pub fn uniform(values: Vec<f64>, interpolation: Interpolation) -> Result<Self, CurveError> {
        let last = values.len().saturating_sub(1).max(1) as f64;
        Self::new((0..values.len()).map(|i| i as f64 / last).collect(), values, interpolation)
    }

    /// How many knots it has.
    pub fn knots(&self) -> usize {
        self.positions.len()
    }

    /// The positions of its knots, ascending.
    pub fn positions(&self) -> &[f64] {
        &self.positions
    }

    /// The value at x.
    pub fn value(&self, x: f64) -> f64 {
        self.evaluate(x).0
    }

    /// The derivative at x (at a corner, the one to the right; zero outside the knots).
    pub fn derivative(&self, x: f64) -> f64 {
        self.evaluate(x).1
    }

    /// The smallest and the largest value.
    pub fn range(&self) -> (f64, f64) {
        (self.values[0], self.values[self.values.len() - 1])
    }

    fn evaluate(&self, x: f64) -> (f64, f64) {
        let last = self.positions.len() - 1;
        if x < self.positions[0] {
            return (self.values[0], 0.0);
        }
        if x > self.positions[last] {
            return (self.values[last], 0.0);
        }
        let k = self.positions.partition_point(|&p| p <= x).clamp(1, last) - 1;
        let width = self.positions[k + 1] - self.positions[k];
        let (low, high) = (self.values[k], self.values[k + 1]);
        let u = (x - self.positions[k]) / width;
        if self.slopes.is_empty() {
            // The second form meets the upper knot exactly.
            let value = if u < 0.5 { low + (high - low) * u } else { high - (high - low) * (1.0 - u) };
            return (value, (high - low) / width);
        }
        let (m0, m1) = (self.slopes[k] * width, self.slopes[k + 1] * width);
        let v = 1.0 - u;
        let value = v * v * (1.0 + 2.0 * u) * low + u * u * (3.0 - 2.0 * u) * high + u * v * (v * m0 - u * m1);
        let slope = 6.0 * u * v * (high - low) + v * (1.0 - 3.0 * u) * m0 + u * (3.0 * u - 2.0) * m1;
        (value.clamp(low, high), slope / width)
    }
}

/// Fritsch and Carlson 1980: means of neighbouring secants, shortened where they would overshoot.
fn fritsch_carlson_slopes(positions: &[f64], values: &[f64]) -> Vec<f64> {
    let n = positions.len();
    let secants: Vec<f64> =
        (0..n - 1).map(|k| (values[k + 1] - values[k]) / (positions[k + 1] - positions[k])).collect();
    let mut slopes: Vec<f64> = (0..n)
        .map(|k| match k {
            0 => secants[0],
            k if k == n - 1 => secants[n - 2],
            k => 0.5 * (secants[k - 1] + secants[k]),
        })
        .collect();
    for (k, &secant) in secants.iter().enumerate() {
        if secant == 0.0 {
            (slopes[k], slopes[k + 1]) = (0.0, 0.0);
            continue;
        }
        let length = (slopes[k] / secant).hypot(slopes[k + 1] / secant);
        if length > 3.0 {
            slopes[k] *= 3.0 / length;
            slopes[k + 1] *= 3.0 / length;
        }
    }
    slopes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> [Curve; 2] {
        [Interpolation::Linear, Interpolation::MonotoneCubic].map(|interpolation| {
            Curve::new(vec![0.0, 0.1, 0.3, 0.6, 1.0], vec![0.0, 0.0, 2.0, 2.5, 18.0], interpolation).unwrap()
        })
    }

    #[test]
    fn curves_pass_through_their_knots_and_are_constant_outside() {
        for curve in both() {
            for (x, y) in [(-1.0, 0.0), (0.0, 0.0), (0.3, 2.0), (0.6, 2.5), (1.0, 18.0), (2.0, 18.0)] {
                assert_eq!(curve.value(x), y);
            }
            assert_eq!((curve.derivative(-0.5), curve.derivative(1.5)), (0.0, 0.0));
        }
    }

    #[test]
    fn curves_never_fall_and_their_derivative_is_that_of_finite_differences() {
        for curve in both() {
            let mut previous = curve.value(0.0);
            for i in 1..=1000 {
                let x = i as f64 / 1000.0;
                assert!(curve.value(x) >= previous);
                previous = curve.value(x);
                let middle = x - 0.0005;
                let difference = (curve.value(middle + 1e-6) - curve.value(middle - 1e-6)) / 2e-6;
                assert!((difference - curve.derivative(middle)).abs() < 1e-4, "at {middle}");
            }
        }
    }

    #[test]
    fn the_cubic_reproduces_a_straight_line_and_has_no_corners() {
        let line = Curve::uniform(vec![1.0, 2.0, 3.0, 4.0], Interpolation::MonotoneCubic).unwrap();
        for i in 0..=10 {
            let x = i as f64 / 10.0;
            assert!((line.value(x) - 1.0 - 3.0 * x).abs() < 1e-15);
        }
        let [_, cubic] = both();
        for knot in [0.1, 0.3, 0.6] {
            assert!((cubic.derivative(knot - 1e-9) - cubic.derivative(knot + 1e-9)).abs() < 1e-5);
        }
    }

    #[test]
    fn bad_knots_are_named() {
        let make = |x: &[f64], y: &[f64]| Curve::new(x.to_vec(), y.to_vec(), Interpolation::Linear).unwrap_err();
        assert!(matches!(make(&[0.0], &[1.0]), CurveError::Count { .. }));
        assert!(matches!(make(&[0.0, f64::NAN], &[0.0, 1.0]), CurveError::NotFinite { index: 1, .. }));
        assert!(matches!(make(&[0.0, 0.0], &[0.0, 1.0]), CurveError::PositionsNotIncreasing { index: 1, .. }));
        assert!(matches!(make(&[0.0, 1.0], &[2.0, 1.0]), CurveError::ValuesFall { index: 1, .. }));
    }
}
