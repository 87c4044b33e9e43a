//! Maximum mean discrepancy with a Gaussian kernel.

use super::{Estimate, TransportError, check_clouds, squared_distances};
use crate::linalg::Matrix;
use softdiff_engine::cpu::vector::exponential;

/// Width of the kernel `exp(-|x - y|^2 / 2 h^2)`.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bandwidth {
    /// h^2 is half the median of the squared distances between the two clouds.
    Median,
    /// h itself.
    Fixed(f64),
}

/// MMD^2 of the two clouds as they are (the biased estimator: never negative, zero for equal clouds).
///
/// Error: its bias for samples, `(1/n + 1/m)(1 - mean kernel)`, by which two samples of one distribution differ on
/// average.
pub fn mmd(x: &Matrix, y: &Matrix, bandwidth: Bandwidth) -> Result<Estimate, TransportError> {
    check_clouds(x, y)?;
    let between = squared_distances(x, y)?;
    let width2 = match bandwidth {
        Bandwidth::Fixed(h) if h > 0.0 && h.is_finite() => h * h,
        Bandwidth::Fixed(h) => {
            return Err(TransportError::Option { option: "the bandwidth", value: h, remedy: "give a positive number" });
        }
        Bandwidth::Median => 0.5 * median(between.values()),
    };
    if width2 == 0.0 {
        // All points coincide.
        return Ok(Estimate { value: 0.0, converged: true, iterations: 1, error: 0.0 });
    }
    let mean_kernel = |cost: &Matrix| {
        let total: f64 = cost.values().iter().map(|c| exponential(-c / (2.0 * width2))).sum();
        total / cost.values().len() as f64
    };
    let (within_x, within_y) = (mean_kernel(&squared_distances(x, x)?), mean_kernel(&squared_distances(y, y)?));
    let across = mean_kernel(&between);
    let value = (within_x + within_y - 2.0 * across).max(0.0);
    let error = (1.0 / x.rows() as f64 + 1.0 / y.rows() as f64) * (1.0 - across);
    Ok(Estimate { value, converged: true, iterations: 1, error })
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    let middle = sorted.len() / 2;
    *sorted.select_nth_unstable_by(middle, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff_engine::rng::RandomStream;

    #[test]
    fn two_points_have_the_closed_form() {
        let point = |v: f64| Matrix::from_vec(1, 1, vec![v]).unwrap();
        let found = mmd(&point(0.0), &point(2.0), Bandwidth::Fixed(1.0)).unwrap();
        assert!((found.value - 2.0 * (1.0 - (-2.0f64).exp())).abs() < 1e-15);
        assert_eq!(mmd(&point(1.0), &point(1.0), Bandwidth::Median).unwrap().value, 0.0);
    }

    #[test]
    fn samples_of_one_distribution_differ_by_about_the_stated_bias() {
        let mut stream = RandomStream::new(6, "mmd");
        let mut draw = |shift: f64| Matrix::from_fn(150, 3, |_, _| stream.normal() + shift);
        let (x, y, far) = (draw(0.0), draw(0.0), draw(1.0));
        let same = mmd(&x, &y, Bandwidth::Median).unwrap();
        assert!(same.value < 2.0 * same.error);
        assert!(mmd(&x, &far, Bandwidth::Median).unwrap().value > 10.0 * same.value);
        assert!(mmd(&x, &y, Bandwidth::Fixed(-1.0)).is_err());
    }
}
