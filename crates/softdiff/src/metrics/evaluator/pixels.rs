//! The numbers that pixels alone give.

use super::Evaluator;
use crate::data::Dataset;
use crate::metrics::{
    Evaluation, Measured, Metric, MetricError, memorisation, nearest, psnr, sliced_wasserstein, ssim,
};

/// What equal images count for in a mean of PSNR, whose true value is infinite.
const PSNR_OF_EQUALS: f64 = 100.0;

impl Evaluator<'_> {
    /// Adds the numbers to `evaluation`.
    pub(super) fn measure_pixels(
        &self,
        metrics: &[Metric],
        images: &Dataset,
        reference: &Dataset,
        evaluation: &mut Evaluation,
    ) -> Result<(), MetricError> {
        let (size, options) = (images.picture_size(), &self.options);
        let first = |dataset: &Dataset| dataset.len().min(options.samples) * size;
        let (some, some_reference) = (&images.pixels()[..first(images)], &reference.pixels()[..first(reference)]);
        let results = &mut evaluation.results;
        if metrics.contains(&Metric::SlicedWasserstein) {
            let (value, error) = sliced_wasserstein(some, some_reference, size, options.directions, options.seed)?;
            results.insert("sliced_wasserstein".into(), Measured::new(value).error(error));
        }
        if metrics.contains(&Metric::Memorisation) {
            let update = |done, total| (self.progress)("nearest neighbours", "reference images", done, total);
            evaluation.nearest = nearest(some, reference.pixels(), size, &update)?;
            results.insert("memorisation".into(), memorisation(&evaluation.nearest).into());
        }
        if metrics.contains(&Metric::Pairs) {
            let (left, right) = (images.len(), reference.len());
            if left != right {
                return Err(MetricError::Counts { metric: "pairs", left, right });
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
}
