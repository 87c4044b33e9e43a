//! Paired distances between all levels at once.
//!
//! With z_k = (C_{k+1} - C_k) x, the squared distance of levels i < j is `E|z_i + ... + z_{j-1}|^2`, a sum over the matrix
//! `H_kl = E<z_k, z_l>`. Increments of a corruption point much the same way, so these sums hardly cancel, where
//! `E|C_i x|^2 + E|C_j x|^2 - 2 E<C_i x, C_j x>` would lose all digits between near levels. One pass over the images
//! makes H; the 32,640 distances of 256 levels follow by additions.
//!
//! Where a corruption treats channels alike, only second moments over pixels matter, and many images are replaced by as
//! many as there are pixels, with the same moments (the triangular factor of a QR decomposition).

use super::{ScheduleError, ScheduleProgress};
use crate::corruption::{Corruption, CorruptionError, LinearMap, Shape};
use crate::linalg::{LinalgError, Matrix, Strided, multiply_into, triangular_factor};
use rayon::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Images whose increments are multiplied together; bounds memory to some 20 MB per thread at 256 levels of 32x32.
const GROUP_VALUES: usize = 8 * 1024;
/// Rows of the symmetric product made at a time; the rest of the lower triangle is not computed.
const BAND: usize = 64;

/// Root mean squared differences of the same images between every two levels.
pub fn paired_distances(
    corruption: &dyn Corruption,
    levels: &[f64],
    images: &[f64],
    progress: &ScheduleProgress<'_>,
) -> Result<Matrix, ScheduleError> {
    let shape = corruption.shape();
    let count = shape.count(images)?;
    if count == 0 {
        return Err(ScheduleError::Images { found: 0, needed: 1 });
    }
    if let Some(index) = (1..levels.len()).find(|&k| levels[k] <= levels[k - 1]) {
        return Err(ScheduleError::Candidates { index, level: levels[index], previous: levels[index - 1] });
    }
    if let (true, [first, .., last]) = (corruption.is_straight(), levels) {
        let whole = straight_length(corruption, *first, *last, images)? / (last - first);
        return Ok(Matrix::from_fn(levels.len(), levels.len(), |i, j| whole * (levels[i] - levels[j]).abs()));
    }
    let maps = levels.iter().map(|&level| corruption.at(level)).collect::<Result<Vec<_>, _>>()?;
    let (shape, rows) = if maps.iter().all(LinearMap::treats_channels_alike) {
        (Shape { channels: 1, ..shape }, few_planes(shape, images)?)
    } else {
        (shape, Matrix::from_vec(count, shape.len(), images.to_vec()).map_err(CorruptionError::from)?)
    };
    let moments = increment_moments(shape, &maps, &rows, progress)?;
    Ok(sum_increments(&moments, levels.len(), count as f64))
}

/// Root mean squared change of the images from one level to another.
fn straight_length(corruption: &dyn Corruption, from: f64, to: f64, images: &[f64]) -> Result<f64, ScheduleError> {
    let shape = corruption.shape();
    let [a, b] = [corruption.at(from)?.apply_batch(shape, images)?, corruption.at(to)?.apply_batch(shape, images)?];
    let squares: f64 = a.iter().zip(&b).map(|(a, b)| (a - b).powi(2)).sum();
    Ok((squares / shape.count(images)? as f64).sqrt())
}

/// The channel planes of all images, or fewer rows with the same second moments.
fn few_planes(shape: Shape, images: &[f64]) -> Result<Matrix, CorruptionError> {
    let count = images.len() / shape.len() * shape.channels;
    let planes = Matrix::from_fn(count, shape.pixels(), |plane, pixel| {
        images[plane / shape.channels * shape.len() + pixel * shape.channels + plane % shape.channels]
    });
    planes.check_finite().map_err(|error| match error {
        LinalgError::NotFinite { row, col, value } => LinalgError::NotFinite {
            row: row / shape.channels,
            col: col * shape.channels + row % shape.channels,
            value,
        },
        other => other,
    })?;
    Ok(if count > shape.pixels() { triangular_factor(&planes) } else { planes })
}

/// Sum over rows of <z_k, z_l>, upper triangle.
fn increment_moments(
    shape: Shape,
    maps: &[LinearMap],
    rows: &Matrix,
    progress: &ScheduleProgress<'_>,
) -> Result<Matrix, ScheduleError> {
    let increments = maps.len().saturating_sub(1);
    let group = (GROUP_VALUES / shape.len()).max(1);
    let starts: Vec<usize> = (0..rows.rows()).step_by(group).collect();
    let done = AtomicUsize::new(0);
    let parts = starts
        .par_iter()
        .map(|&start| {
            progress(done.load(Ordering::Relaxed), starts.len());
            let end = (start + group).min(rows.rows());
            let moments = group_moments(shape, maps, rows, start..end)?;
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, starts.len());
            Ok(moments)
        })
        .collect::<Result<Vec<Matrix>, CorruptionError>>()?;
    // Summed in the order of the images, so the result does not depend on the threads.
    Ok(parts.iter().fold(Matrix::zeros(increments, increments), |total, part| total.combined(1.0, part, 1.0)))
}

fn group_moments(
    shape: Shape,
    maps: &[LinearMap],
    rows: &Matrix,
    group: std::ops::Range<usize>,
) -> Result<Matrix, CorruptionError> {
    let count = maps.len().saturating_sub(1);
    let width = group.len() * shape.len();
    let corrupted = |map: &LinearMap| -> Result<Vec<f64>, CorruptionError> {
        let images = group.clone().map(|row| map.apply(shape, rows.row(row)));
        Ok(images.collect::<Result<Vec<_>, _>>()?.concat())
    };
    let mut values = Vec::with_capacity(count * width);
    let mut before = corrupted(&maps[0])?;
    for map in &maps[1..] {
        let after = corrupted(map)?;
        values.extend(after.iter().zip(&before).map(|(a, b)| a - b));
        before = after;
    }
    let mut moments = Matrix::zeros(count, count);
    for start in (0..count).step_by(BAND) {
        let height = BAND.min(count - start);
        let band = Strided::new(&values[start * width..(start + height) * width], height, width);
        let rest = Strided::new(&values[start * width..], count - start, width);
        let mut product = vec![0.0; height * (count - start)];
        multiply_into(band, rest.transposed(), &mut product, false);
        for (offset, row) in product.chunks_exact(count - start).enumerate() {
            moments.row_mut(start + offset)[start..].copy_from_slice(row);
        }
    }
    Ok(moments)
}

/// Distances from the moments: `D_ij = D_i(j-1) + 2 sum_{i<=k<j-1} H_k(j-1) + H_(j-1)(j-1)`.
fn sum_increments(moments: &Matrix, levels: usize, images: f64) -> Matrix {
    let mut squared = Matrix::zeros(levels, levels);
    for j in 1..levels {
        let last = moments[(j - 1, j - 1)];
        let mut crossed = 0.0;
        for i in (0..j).rev() {
            if i < j - 1 {
                crossed += moments[(i, j - 1)];
            }
            squared[(i, j)] = squared[(i, j - 1)] + 2.0 * crossed + last;
        }
    }
    Matrix::from_fn(levels, levels, |i, j| (squared[(i.min(j), i.max(j))] / images).max(0.0).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corruption::{Blur, Boundary, Decolourisation, Grey, Masking};
    use crate::linalg::squared_distance;
    use softdiff_engine::Hint;
    use softdiff_engine::rng::RandomStream;

    fn agrees_with_plain_differences(corruption: &dyn Corruption, levels: &[f64], images: usize) {
        let shape = corruption.shape();
        let data: Vec<f64> = (0..images * shape.len())
            .map({
                let mut stream = RandomStream::new(1, "images");
                move |_| stream.uniform()
            })
            .collect();
        let found = paired_distances(corruption, levels, &data, &|_, _| {}).unwrap();
        let batches: Vec<Vec<f64>> =
            levels.iter().map(|&l| corruption.at(l).unwrap().apply_batch(shape, &data).unwrap()).collect();
        for i in 0..levels.len() {
            for j in 0..levels.len() {
                let expected = (squared_distance(&batches[i], &batches[j]) / images as f64).sqrt();
                let gap = (found[(i, j)] - expected).abs();
                assert!(
                    gap <= 1e-10 * expected + 1e-15,
                    "{} {i} {j}: {} not {expected}",
                    corruption.name(),
                    found[(i, j)]
                );
            }
        }
    }

    #[test]
    fn all_pairs_at_once_equal_plain_differences() {
        let shape = Shape::new(6, 5, 3);
        let levels: Vec<f64> = (1..=70).map(|k| 0.05 * k as f64).collect();
        let blur = Blur::new(shape, Boundary::Zero, 4.0).unwrap();
        // Fewer planes than pixels, and more.
        agrees_with_plain_differences(&blur, &levels, 4);
        agrees_with_plain_differences(&blur, &levels, 40);
        let unit: Vec<f64> = (0..=10).map(|k| 0.1 * k as f64).collect();
        agrees_with_plain_differences(&Decolourisation::new(shape, Grey::Luma).unwrap(), &unit, 5);
        let kernel = crate::corruption::convolution_matrix(&[0.3, 0.4, 0.3], 6, Boundary::Zero);
        let map = LinearMap::Separable { rows: kernel, cols: Matrix::identity(5) };
        agrees_with_plain_differences(&crate::corruption::Custom::new(shape, map).unwrap(), &unit, 5);
        agrees_with_plain_differences(&Masking::new(shape, crate::corruption::ErasureOrder::Spiral), &unit, 30);
    }

    #[test]
    fn bad_data_is_named() {
        let blur = Blur::new(Shape::new(4, 4, 3), Boundary::Zero, 4.0).unwrap();
        let run = |levels: &[f64], data: &[f64]| paired_distances(&blur, levels, data, &|_, _| {}).unwrap_err();
        let mut data = vec![0.5; 2 * 48];
        assert!(matches!(run(&[1.0, 1.0], &data), ScheduleError::Candidates { index: 1, .. }));
        assert!(matches!(run(&[1.0, 2.0], &data[..40]), ScheduleError::Corruption(_)));
        data[48 + 7] = f64::NAN;
        assert_eq!(run(&[1.0, 2.0], &data).in_full(), "entry (1, 7) is NaN; every entry must be finite");
    }
}
