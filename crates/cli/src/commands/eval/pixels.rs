//! The numbers that pixels alone give.

use super::Measure;
use super::metric::Metric;
use crate::atomic_file::save;
use crate::diagnostics::Failure;
use crate::progress::Progress;
use softdiff::data::Dataset;
use softdiff::image::grid;
use softdiff::metrics::{
    Evaluation, Measured, MetricError, Nearest, memorisation, nearest, psnr, sliced_wasserstein, ssim,
};
use std::path::Path;

/// What equal pictures count for in a mean of PSNR, whose true value is infinite.
const PSNR_OF_EQUALS: f64 = 100.0;
/// Generated pictures in a picture of neighbours.
const SHOWN: usize = 16;

/// Adds the numbers to `evaluation`.
pub fn measure(
    flags: &Measure,
    metrics: &[Metric],
    images: &Dataset,
    reference: &Dataset,
    evaluation: &mut Evaluation,
) -> Result<(), Failure> {
    let size = images.picture_size();
    let first = |dataset: &Dataset| dataset.len().min(flags.samples) * size;
    let (some, some_reference) = (&images.pixels()[..first(images)], &reference.pixels()[..first(reference)]);
    let results = &mut evaluation.results;
    if metrics.contains(&Metric::SlicedWasserstein) {
        let (value, error) = sliced_wasserstein(some, some_reference, size, flags.directions, flags.seed)?;
        results.insert("sliced_wasserstein".into(), Measured::new(value).error(error));
    }
    if metrics.contains(&Metric::Memorisation) {
        let progress = Progress::new("nearest neighbours", "reference pictures");
        let found = nearest(some, reference.pixels(), size, &|done, total| progress.update(done, total))?;
        results.insert("memorisation".into(), memorised(&found));
        if let Some(path) = &flags.show_neighbours {
            show_neighbours(path, images, reference, &found)?;
        }
    }
    if metrics.contains(&Metric::Pairs) {
        let (left, right) = (images.len(), reference.len());
        if left != right {
            return Err(MetricError::Counts { metric: "pairs", left, right }.into());
        }
        let (mut ratios, mut similarities) = (0.0, 0.0);
        for index in 0..left {
            let (x, y) = (images.picture(index), reference.picture(index));
            ratios += psnr(x, y)?.min(PSNR_OF_EQUALS);
            similarities += ssim(x, y, images.height(), images.width(), images.channels())?;
        }
        results.insert("psnr".into(), Measured::new(ratios / left as f64));
        results.insert("ssim".into(), Measured::new(similarities / left as f64));
    }
    Ok(())
}

/// What the neighbours of a set say, as a result.
pub fn memorised(found: &[Nearest]) -> Measured {
    let sum = memorisation(found);
    Measured::new(sum.share).detail("copies", sum.copies).detail("median_distance", sum.median_distance)
}

/// The generated pictures that are nearest to a reference picture, each above that picture.
fn show_neighbours(path: &Path, images: &Dataset, reference: &Dataset, found: &[Nearest]) -> Result<(), Failure> {
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by(|&i, &j| found[i].distance.total_cmp(&found[j].distance));
    order.truncate(SHOWN);
    let above = order.iter().flat_map(|&i| images.picture(i));
    let below = order.iter().flat_map(|&i| reference.picture(found[i].index));
    let pixels: Vec<u8> = above.chain(below).copied().collect();
    let zoom = grid::usual_zoom(images.width());
    let shown = grid::compose(images.width(), images.height(), images.channels(), &pixels, order.len(), zoom);
    save(path, &shown.to_png())
}
