//! Mean and covariance of features, gathered batch by batch in memory that does not grow.

use super::MetricError;
use super::error::check_finite;
use crate::linalg::Matrix;
use softdiff_engine::cpu::product::inner_products;

/// Rows gathered before the covariance is updated: one large product instead of many small ones.
const BLOCK: usize = 512;

/// Mean and covariance (divisor n - 1) of a set of features.
#[derive(Clone, Debug)]
pub struct FeatureStatistics {
    count: usize,
    /// Subtracted from every row before it is squared, so that no digits are lost: the mean of the first block.
    shift: Vec<f64>,
    /// Of the shifted rows.
    sum: Vec<f64>,
    /// Of the products of shifted rows.
    products: Matrix,
    /// Rows that wait for their block to fill.
    waiting: Vec<f32>,
}

impl FeatureStatistics {
    /// Of nothing so far.
    pub fn new(dimensions: usize) -> FeatureStatistics {
        FeatureStatistics {
            count: 0,
            shift: vec![],
            sum: vec![0.0; dimensions],
            products: Matrix::zeros(dimensions, dimensions),
            waiting: vec![],
        }
    }

    /// Of features that are all in memory.
    pub fn of(features: &[f32], dimensions: usize) -> Result<FeatureStatistics, MetricError> {
        let mut statistics = FeatureStatistics::new(dimensions);
        statistics.add(features)?;
        Ok(statistics)
    }

    /// Known moments of `count` pictures, such as a file holds.
    pub fn from_moments(count: usize, mean: Vec<f64>, covariance: Matrix) -> FeatureStatistics {
        let scale = count.saturating_sub(1) as f64;
        let zeros = vec![0.0; mean.len()];
        let products = Matrix::from_fn(covariance.rows(), covariance.cols(), |i, j| scale * covariance[(i, j)]);
        FeatureStatistics { count, shift: mean, sum: zeros, products, waiting: vec![] }
    }

    /// Adds whole rows.
    pub fn add(&mut self, features: &[f32]) -> Result<(), MetricError> {
        let dimensions = self.dimensions();
        if dimensions == 0 || !features.len().is_multiple_of(dimensions) {
            return Err(MetricError::Rows { values: features.len(), dimensions });
        }
        check_finite(features, dimensions)?;
        self.count += features.len() / dimensions;
        for row in features.chunks(BLOCK * dimensions) {
            self.waiting.extend_from_slice(row);
            if self.waiting.len() >= BLOCK * dimensions {
                self.settle();
            }
        }
        Ok(())
    }

    /// Brings the waiting rows into the sums.
    fn settle(&mut self) {
        let (waiting, dimensions) = (std::mem::take(&mut self.waiting), self.dimensions());
        let rows = waiting.len() / dimensions;
        if rows == 0 {
            return;
        }
        if self.shift.is_empty() {
            let mut mean = vec![0.0; dimensions];
            for row in waiting.chunks_exact(dimensions) {
                mean.iter_mut().zip(row).for_each(|(mean, &value)| *mean += f64::from(value) / rows as f64);
            }
            self.shift = mean;
        }
        // One row for each feature, so that products of rows are sums over images.
        let mut shifted = vec![0.0; waiting.len()];
        for (picture, row) in waiting.chunks_exact(dimensions).enumerate() {
            for (feature, &value) in row.iter().enumerate() {
                let value = f64::from(value) - self.shift[feature];
                shifted[feature * rows + picture] = value;
                self.sum[feature] += value;
            }
        }
        let mut products = vec![0.0; dimensions * dimensions];
        inner_products(&shifted, &shifted, rows, &mut products);
        self.products.values_mut().iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
    }

    /// How many images.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Length of a feature vector.
    pub fn dimensions(&self) -> usize {
        self.sum.len()
    }

    /// The mean and the covariance with divisor n - 1, of at least two images.
    pub fn moments(&self) -> Result<(Vec<f64>, Matrix), MetricError> {
        if self.count < 2 {
            return Err(MetricError::TooFew { metric: "a covariance", found: self.count, least: 2 });
        }
        if !self.waiting.is_empty() {
            let mut settled = self.clone();
            settled.settle();
            return settled.moments();
        }
        let n = self.count as f64;
        let mean = self.shift.iter().zip(&self.sum).map(|(shift, sum)| shift + sum / n).collect();
        let covariance = Matrix::from_fn(self.dimensions(), self.dimensions(), |i, j| {
            (self.products[(i, j)] - self.sum[i] * self.sum[j] / n) / (n - 1.0)
        });
        Ok((mean, covariance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_definition_however_the_rows_come() {
        let (rows, dimensions) = (1300, 5);
        let value = |i: usize, j: usize| 1000.0 + (((i * 31 + j * 17) % 101) as f32) * 0.25;
        let features: Vec<f32> = (0..rows * dimensions).map(|at| value(at / dimensions, at % dimensions)).collect();
        let mut pieces = FeatureStatistics::new(dimensions);
        for piece in features.chunks(7 * dimensions) {
            pieces.add(piece).unwrap();
        }
        let whole = FeatureStatistics::of(&features, dimensions).unwrap();
        for statistics in [pieces, whole] {
            let (mean, covariance) = statistics.moments().unwrap();
            for i in 0..dimensions {
                let average = |f: &dyn Fn(usize) -> f64| (0..rows).map(f).sum::<f64>();
                let m = average(&|r| f64::from(value(r, i))) / rows as f64;
                assert!((mean[i] - m).abs() < 1e-10);
                for j in 0..dimensions {
                    let mj = average(&|r| f64::from(value(r, j))) / rows as f64;
                    let product = |r| (f64::from(value(r, i)) - m) * (f64::from(value(r, j)) - mj);
                    let expected = average(&product) / (rows - 1) as f64;
                    assert!((covariance[(i, j)] - expected).abs() < 1e-10, "{i} {j}");
                }
            }
        }
    }

    #[test]
    fn one_picture_has_no_covariance_and_nan_is_named_by_its_place() {
        assert!(matches!(FeatureStatistics::of(&[1.0, 2.0], 2).unwrap().moments(), Err(MetricError::TooFew { .. })));
        let nan = FeatureStatistics::of(&[1.0, 2.0, 3.0, f32::NAN], 2).unwrap_err();
        assert!(matches!(nan, MetricError::NotFinite { picture: 1, feature: 1, .. }));
        assert!(matches!(FeatureStatistics::of(&[1.0; 3], 2), Err(MetricError::Rows { .. })));
    }
}
