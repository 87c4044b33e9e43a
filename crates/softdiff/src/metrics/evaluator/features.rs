//! The numbers that compare features of the FID network.

use super::{Evaluator, POINTS};
use crate::inception::FEATURES;
use crate::metrics::features::Features;
use crate::metrics::statistics_file::StatisticsNote;
use crate::metrics::{
    Evaluation, FeatureStatistics, FidReference, ImageSet, KidOptions, Measured, Metric, MetricError, Reference, fid,
    fid_infinity, kid, memorisation, nearest, prdc,
};
use serde_json::json;

/// Below this many images FID is dominated by its bias.
const FEW: usize = 10_000;

impl Evaluator<'_> {
    /// Adds the numbers to `evaluation`.
    pub(super) fn measure_features(
        &mut self,
        metrics: &[Metric],
        images: &ImageSet,
        reference: &Reference,
        evaluation: &mut Evaluation,
    ) -> Result<(), MetricError> {
        let options = self.options;
        let wants = |metric: Metric| metrics.contains(&metric);
        // How many features of single images the metrics want.
        let pairs = if wants(Metric::Kid) || wants(Metric::Prdc) || wants(Metric::FeatureMemorisation) {
            options.samples
        } else {
            0
        };
        let kept = if wants(Metric::FidInfinity) { usize::MAX } else { pairs };
        let kept_reference = if wants(Metric::FeatureMemorisation) { usize::MAX } else { pairs };
        let generated = self.features(images, kept)?;
        let real = self.reference_features(reference, kept_reference)?;
        let results = &mut evaluation.results;
        if wants(Metric::Fid) {
            results.insert("fid".into(), Measured::new(fid(&generated.statistics, &real.statistics)?));
        }
        if wants(Metric::FidInfinity) {
            let update = |done, total| (self.progress)("FID infinity", "points", done, total);
            let factored = FidReference::new(&real.statistics)?;
            let found = fid_infinity(&generated.rows, FEATURES, &factored, POINTS, options.seed, &update)?;
            let measured = Measured::new(found.value).error(found.error).detail("points", json!(found.points));
            results.insert("fid_infinity".into(), measured);
        }
        let first = |rows: &[f32]| rows.len().min(options.samples.saturating_mul(FEATURES));
        let (some, some_real) = (&generated.rows[..first(&generated.rows)], &real.rows[..first(&real.rows)]);
        if wants(Metric::Kid) {
            let (subsets, subset_size, seed) = (options.kid_subsets, options.kid_subset_size, options.seed);
            let found = kid(some, some_real, FEATURES, KidOptions { subsets, subset_size, seed })?;
            let measured = Measured::new(found.value).error(found.deviation).detail("subset_size", found.subset_size);
            results.insert("kid".into(), measured);
        }
        if wants(Metric::Prdc) {
            let found = prdc(some, some_real, FEATURES, options.neighbours)?;
            let shares = [found.precision, found.recall, found.density, found.coverage];
            for (name, share) in Metric::Prdc.results().iter().zip(shares) {
                results.insert((*name).into(), Measured::new(share));
            }
        }
        if wants(Metric::FeatureMemorisation) {
            let found = nearest(some, &real.rows, FEATURES, &|_, _| {})?;
            results.insert("feature_memorisation".into(), memorisation(&found).into());
        }
        let (count, of_reference) = (images.dataset.len(), real.statistics.count());
        if wants(Metric::FidInfinity) && count < FEW {
            evaluation.warnings.push(format!(
                "FID infinity of {count} images rests on sets of a tenth of that; its usual number is 50000"
            ));
        }
        if wants(Metric::Fid) && count.min(of_reference) < FEW {
            evaluation.warnings.push(format!(
                "FID of {} images is much larger than of 50000, the usual number: compare only equal numbers, or measure fid-infinity",
                count.min(of_reference)
            ));
        }
        Ok(())
    }

    /// Features of a set, with the rows of its first `kept` images.
    pub fn features(&mut self, images: &ImageSet, kept: usize) -> Result<Features, MetricError> {
        let extractor = self.extractor.as_mut().ok_or(MetricError::NoNetwork)?;
        let update = |done, total| (self.progress)("features of the images", "images", done, total);
        let dataset = &images.dataset;
        let size = [dataset.height(), dataset.width(), dataset.channels()];
        Features::of(extractor, dataset.pixels(), size, kept, &update)
    }

    /// Features of the reference: from a file, from the cache, or computed and then stored there.
    fn reference_features(&mut self, reference: &Reference, kept: usize) -> Result<Features, MetricError> {
        let extractor = self.extractor.as_mut().ok_or(MetricError::NoNetwork)?;
        let set = match reference {
            Reference::Images(set) => set,
            Reference::Statistics { path, statistics, note } => {
                let refuse = |field, found: &str, expected: String| MetricError::StatisticsProtocol {
                    path: path.clone(),
                    field,
                    found: found.into(),
                    expected,
                };
                if let Some(note) = note {
                    let (network, preset) = (extractor.network(), extractor.preset().to_string());
                    if !network.is_named(&note.network) {
                        return Err(refuse("network", &note.network, network.hash().to_string()));
                    }
                    if note.preset != preset {
                        return Err(refuse("preset", &note.preset, preset));
                    }
                }
                return Ok(Features { statistics: (**statistics).clone(), rows: vec![] });
            }
        };
        if let Some((_, statistics)) = self.last.as_ref().filter(|(note, _)| kept == 0 && note.pictures == set.info) {
            return Ok(Features { statistics: statistics.clone(), rows: vec![] });
        }
        let (features, note) = Features::cached(extractor, set, kept, self.progress)?;
        self.last = Some((note, features.statistics.clone()));
        Ok(features)
    }

    /// Mean and covariance of a reference set's features, and the note that a statistics file has of them.
    pub fn reference_statistics(&mut self, set: &ImageSet) -> Result<(FeatureStatistics, StatisticsNote), MetricError> {
        if let Some((note, statistics)) = self.last.as_ref().filter(|(note, _)| note.pictures == set.info) {
            return Ok((statistics.clone(), note.clone()));
        }
        let extractor = self.extractor.as_mut().ok_or(MetricError::NoNetwork)?;
        let (features, note) = Features::cached(extractor, set, 0, self.progress)?;
        Ok((features.statistics, note))
    }
}
