//! Nearest neighbours of generated images in a reference set, and what they say about memorisation.

use super::MetricError;
use rayon::prelude::*;
use serde::Serialize;
use softdiff_engine::cpu::product::inner_products;

/// Reference rows, and generated rows, whose distances are in memory at a time.
const BLOCK: usize = 4096;
const BAND: usize = 256;
/// Candidates kept of each block in f32, before distances are computed exactly.
const CANDIDATES: usize = 4;
/// An image counts as memorised when its nearest neighbour is nearer than this share of the distance to the second
/// (Yoon et al. 2023).
const MEMORISED: f64 = 1.0 / 3.0;

/// The two nearest reference rows of a generated one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Nearest {
    /// Which reference row is nearest.
    pub index: usize,
    /// Its Euclidean distance.
    pub distance: f64,
    /// The distance of the second nearest.
    pub second: f64,
}

/// What the neighbours of a whole set say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Memorisation {
    /// Share of images much nearer to one reference image than to any other.
    pub share: f64,
    /// Images that equal a reference image.
    pub copies: usize,
    /// The middle one of all distances to the nearest neighbour.
    pub median_distance: f64,
}

/// The two nearest rows of `reference` for every row of `x`, in pixels (`u8`) or features (`f32`).
pub fn nearest<T: Copy + Into<f32> + Sync>(
    x: &[T],
    reference: &[T],
    dimensions: usize,
    progress: &dyn Fn(usize, usize),
) -> Result<Vec<Nearest>, MetricError> {
    for set in [x, reference] {
        if dimensions == 0 || !set.len().is_multiple_of(dimensions) {
            return Err(MetricError::Rows { values: set.len(), dimensions });
        }
    }
    let (rows, total) = (x.len() / dimensions, reference.len() / dimensions);
    if total < 2 {
        return Err(MetricError::TooFew { metric: "nearest neighbours", found: total, least: 2 });
    }
    let mut candidates: Vec<Vec<usize>> = vec![vec![]; rows];
    for (block, part) in reference.chunks(BLOCK * dimensions).enumerate() {
        let (y, y_norms) = wide(part, dimensions);
        for (band, part) in x.chunks(BAND * dimensions).enumerate() {
            let (x, _) = wide(part, dimensions);
            let mut products = vec![0.0; x.len() / dimensions * y_norms.len()];
            inner_products(&x, &y, dimensions, &mut products);
            let band = &mut candidates[band * BAND..][..x.len() / dimensions];
            band.par_iter_mut().zip(products.par_chunks_exact(y_norms.len())).for_each(|(candidates, products)| {
                // The norm of x is the same for all.
                let near = |i: &usize| f64::from(y_norms[*i]) - 2.0 * f64::from(products[*i]);
                let mut order: Vec<usize> = (0..y_norms.len()).collect();
                let kept = CANDIDATES.min(order.len());
                order.select_nth_unstable_by(kept - 1, |i, j| near(i).total_cmp(&near(j)));
                candidates.extend(order[..kept].iter().map(|i| block * BLOCK + i));
            });
        }
        progress((block * BLOCK + y_norms.len()).min(total), total);
    }
    let found = x.par_chunks_exact(dimensions).zip(candidates).map(|(x, candidates)| {
        let distance = |&i: &usize| (exact_distance(x, &reference[i * dimensions..][..dimensions]), i);
        let mut exact: Vec<(f64, usize)> = candidates.iter().map(distance).collect();
        exact.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        Nearest { index: exact[0].1, distance: exact[0].0, second: exact[1].0 }
    });
    Ok(found.collect())
}

/// Rows in f32 and their squared norms.
fn wide<T: Copy + Into<f32> + Sync>(rows: &[T], dimensions: usize) -> (Vec<f32>, Vec<f32>) {
    let rows: Vec<f32> = rows.par_iter().map(|&value| value.into()).collect();
    let norm = |row: &[f32]| row.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>() as f32;
    let norms = rows.par_chunks_exact(dimensions).map(norm).collect();
    (rows, norms)
}

fn exact_distance<T: Copy + Into<f32>>(x: &[T], y: &[T]) -> f64 {
    let squares = x.iter().zip(y).map(|(&x, &y)| (f64::from(x.into()) - f64::from(y.into())).powi(2));
    squares.sum::<f64>().sqrt()
}

/// Sums up the neighbours of a set.
pub fn memorisation(found: &[Nearest]) -> Memorisation {
    let mut distances: Vec<f64> = found.iter().map(|nearest| nearest.distance).collect();
    distances.sort_by(f64::total_cmp);
    let memorised = found.iter().filter(|n| n.distance < MEMORISED * n.second).count();
    Memorisation {
        share: memorised as f64 / found.len().max(1) as f64,
        copies: distances.iter().filter(|&&distance| distance == 0.0).count(),
        median_distance: distances.get(distances.len() / 2).copied().unwrap_or(f64::NAN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff_engine::rng::RandomStream;

    #[test]
    fn neighbours_equal_those_of_the_double_loop() {
        let mut stream = RandomStream::new(2, "nearest");
        let mut draw = |n: usize| -> Vec<u8> { (0..n * 12).map(|_| stream.below(256) as u8).collect() };
        let (x, mut reference) = (draw(300), draw(5000));
        // A copy, far behind the first block.
        reference[4500 * 12..4501 * 12].copy_from_slice(&x[7 * 12..8 * 12]);
        let found = nearest(&x, &reference, 12, &|_, _| {}).unwrap();
        for (row, found) in x.chunks(12).zip(&found) {
            let mut all: Vec<f64> = reference.chunks(12).map(|other| exact_distance(row, other)).collect();
            assert_eq!(all[found.index], found.distance);
            all.sort_by(f64::total_cmp);
            assert_eq!((all[0], all[1]), (found.distance, found.second));
        }
        let sum = memorisation(&found);
        assert_eq!((found[7].index, sum.copies), (4500, 1));
        assert!(sum.share >= 1.0 / 300.0 && sum.median_distance > 0.0);
    }

    #[test]
    fn one_reference_picture_is_too_few() {
        assert!(matches!(nearest(&[1u8; 4], &[1u8; 2], 2, &|_, _| {}), Err(MetricError::TooFew { .. })));
    }
}
