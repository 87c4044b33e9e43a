//! Kernel Inception distance (Binkowski et al. 2018): the squared maximum mean discrepancy of features under the kernel
//! `(x.y / d + 1)^3`, without bias, as the mean over subsets.

use super::MetricError;
use super::error::check_features;
use serde::{Deserialize, Serialize};
use softdiff_engine::cpu::product::inner_products;
use softdiff_engine::rng::RandomStream;

/// How subsets are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KidOptions {
    /// How many.
    pub subsets: usize,
    /// Images of each set in a subset; fewer where a set has fewer.
    pub subset_size: usize,
    /// Decides which.
    pub seed: u64,
}

impl Default for KidOptions {
    /// As torch-fidelity: 100 subsets of 1000.
    fn default() -> Self {
        KidOptions { subsets: 100, subset_size: 1000, seed: 0 }
    }
}

/// The distance and how much it varies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Kid {
    /// The mean over subsets; may be below zero, since it has no bias.
    pub value: f64,
    /// The standard deviation over subsets.
    pub deviation: f64,
    /// Images in a subset.
    pub subset_size: usize,
}

/// KID of two sets of features.
pub fn kid(x: &[f32], y: &[f32], dimensions: usize, options: KidOptions) -> Result<Kid, MetricError> {
    let [n, m] = check_features("KID", 2, dimensions, [x, y])?;
    let size = options.subset_size.min(n).min(m);
    if size < 2 || options.subsets == 0 {
        return Err(MetricError::TooFew { metric: "KID", found: size, least: 2 });
    }
    let mut values = Vec::new();
    for subset in 0..options.subsets {
        let mut stream = RandomStream::numbered(options.seed, "kid subset", subset);
        let (left, right) = (stream.permutation(n), stream.permutation(m));
        let (left, right) = (rows(x, dimensions, &left[..size]), rows(y, dimensions, &right[..size]));
        values.push(polynomial_mmd2(&left, &right, dimensions));
    }
    let (value, deviation) = mean_and_deviation(&values);
    Ok(Kid { value, deviation, subset_size: size })
}

/// The rows named by `indices`, in f64.
fn rows(features: &[f32], dimensions: usize, indices: &[usize]) -> Vec<f64> {
    indices.iter().flat_map(|&i| features[i * dimensions..][..dimensions].iter().map(|&v| f64::from(v))).collect()
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt())
}

/// MMD^2 of all rows, without bias: pairs of a row with itself do not count.
pub fn polynomial_mmd2(x: &[f64], y: &[f64], dimensions: usize) -> f64 {
    let sum = |a: &[f64], b: &[f64], skip_same: bool| {
        let columns = b.len() / dimensions;
        let mut products = vec![0.0; a.len() / dimensions * columns];
        inner_products(a, b, dimensions, &mut products);
        let kernel = |value: f64| (value / dimensions as f64 + 1.0).powi(3);
        let entries = products.iter().enumerate();
        entries.filter(|(at, _)| !skip_same || at / columns != at % columns).map(|(_, &v)| kernel(v)).sum::<f64>()
    };
    let (n, m) = ((x.len() / dimensions) as f64, (y.len() / dimensions) as f64);
    sum(x, x, true) / (n * (n - 1.0)) + sum(y, y, true) / (m * (m - 1.0)) - 2.0 * sum(x, y, false) / (n * m)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_numbers_have_the_value_of_the_formula() {
        // d = 1: k(a, b) = (ab + 1)^3.
        let found = polynomial_mmd2(&[1.0, 2.0], &[0.0, -1.0], 1);
        let expected = 27.0 + 1.0 - 2.0 * (1.0 + 0.0 + 1.0 - 1.0) / 4.0;
        assert_eq!(found, expected);
    }

    #[test]
    fn subsets_are_no_larger_than_the_sets_and_one_picture_is_refused() {
        let found = kid(&[1.0, 2.0, 3.0], &[1.0, 2.0], 1, KidOptions::default()).unwrap();
        assert_eq!(found.subset_size, 2);
        assert!(matches!(kid(&[1.0], &[1.0, 2.0], 1, KidOptions::default()), Err(MetricError::TooFew { .. })));
    }
}
