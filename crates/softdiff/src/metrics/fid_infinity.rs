//! FID extrapolated to infinitely many images (Chong and Forsyth 2020).
//!
//! FID of N images is too large by about c / N, and c differs between models. So FID is computed for several N, a line is
//! fitted over 1/N, and its value at 1/N = 0 is the estimate. The reference set is taken as it is.

use super::error::check_features;
use super::{FeatureStatistics, FidReference, MetricError};
use serde::Serialize;
use softdiff_engine::rng::RandomStream;

/// The estimate, and the points it was drawn through.
#[derive(Clone, Debug, Serialize)]
pub struct FidInfinity {
    /// FID at 1/N = 0.
    pub value: f64,
    /// Standard error of that value, from the scatter of the points about the line.
    pub error: f64,
    /// Images, and their FID.
    pub points: Vec<(usize, f64)>,
}

/// Fits `points` sizes, from a tenth of all pictures to all, evenly spaced.
pub fn fid_infinity(
    features: &[f32],
    dimensions: usize,
    reference: &FidReference,
    points: usize,
    seed: u64,
    progress: &dyn Fn(usize, usize),
) -> Result<FidInfinity, MetricError> {
    let [count, _] = check_features("FID infinity", 100, dimensions, [features, features])?;
    let points = points.max(3);
    let smallest = count / 10;
    let mut measured = Vec::new();
    for point in 0..points {
        let size = smallest + (count - smallest) * point / (points - 1);
        // Each size has a subset of its own, so that the points' errors are not one error.
        let order = RandomStream::numbered(seed, "fid infinity", point).permutation(count);
        let mut statistics = FeatureStatistics::new(dimensions);
        for &index in &order[..size] {
            statistics.add(&features[index * dimensions..][..dimensions])?;
        }
        measured.push((size, reference.distance(&statistics)?));
        progress(point + 1, points);
    }
    let (value, error) = intercept(&measured);
    Ok(FidInfinity { value, error, points: measured })
}

/// Least squares over 1/N: the value at 0 and its standard error.
fn intercept(points: &[(usize, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let at: Vec<f64> = points.iter().map(|&(size, _)| 1.0 / size as f64).collect();
    let (x, y) = (at.iter().sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let spread: f64 = at.iter().map(|a| (a - x).powi(2)).sum();
    let slope = at.iter().zip(points).map(|(a, p)| (a - x) * (p.1 - y)).sum::<f64>() / spread;
    let value = y - slope * x;
    let rest: f64 = at.iter().zip(points).map(|(a, p)| (p.1 - value - slope * a).powi(2)).sum();
    let variance = rest / (n - 2.0).max(1.0) * (1.0 / n + x * x / spread);
    (value, variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_over_one_over_n_meet_it_at_zero() {
        let points = [100, 250, 700, 2000].map(|size| (size, 7.5 + 1200.0 / size as f64));
        let (value, error) = intercept(&points);
        assert!((value - 7.5).abs() < 1e-10 && error < 1e-9);
    }

    #[test]
    fn two_samples_of_one_gaussian_are_nearer_in_the_limit_than_as_they_are() {
        let mut stream = RandomStream::new(5, "fid infinity test");
        let mut draw = |rows: usize| stream.normals(rows * 16).into_iter().map(|v| v as f32).collect::<Vec<f32>>();
        let (left, right) = (draw(600), draw(20_000));
        let reference = FidReference::new(&FeatureStatistics::of(&right, 16).unwrap()).unwrap();
        let plain = reference.distance(&FeatureStatistics::of(&left, 16).unwrap()).unwrap();
        let found = fid_infinity(&left, 16, &reference, 8, 0, &|_, _| {}).unwrap();
        assert!(plain > 0.1 && found.value.abs() < plain / 2.0, "{plain} and {found:?}");
        assert!(fid_infinity(&left[..160], 16, &reference, 8, 0, &|_, _| {}).is_err());
    }
}
