//! Features of a set of images: their mean and covariance, and those of single images where a metric needs them.

use super::statistics_file::StatisticsNote;
use super::{FeatureStatistics, MetricError, StatisticsCache, TaskProgress};
use crate::inception::{Extractor, FEATURES};
use std::panic::resume_unwind;
use std::sync::mpsc::sync_channel;

/// Batches that may wait for the statistics.
const AHEAD: usize = 4;

/// Mean and covariance of a set's features, and the features of its first images.
pub struct Features {
    /// Of all images.
    pub statistics: FeatureStatistics,
    /// As many rows as were asked for.
    pub rows: Vec<f32>,
}

impl Features {
    /// Runs the network over 8-bit images (NHWC, of this height, width and channels); keeps the first `kept` rows.
    pub fn of(
        extractor: &mut Extractor,
        images: &[u8],
        size: [usize; 3],
        kept: usize,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Features, MetricError> {
        let count = images.len() / size.iter().product::<usize>().max(1);
        let limit = kept.min(count) * FEATURES;
        progress(0, count);
        let (send, receive) = sync_channel::<Vec<f32>>(AHEAD);
        let gather = || -> Result<Features, MetricError> {
            let mut features = Features { statistics: FeatureStatistics::new(FEATURES), rows: vec![] };
            for batch in receive {
                features.statistics.add(&batch)?;
                features.rows.extend_from_slice(&batch[..batch.len().min(limit - features.rows.len())]);
                progress(features.statistics.count(), count);
            }
            Ok(features)
        };
        // The covariance costs the CPU seconds, in which a GPU need not wait.
        let (extracted, gathered) = std::thread::scope(|scope| {
            let gathering = scope.spawn(gather);
            // The receiver hangs up only after an error, which is returned below.
            let extracted = extractor.each_batch(images, size, &mut |batch| drop(send.send(batch.to_vec())));
            drop(send);
            (extracted, gathering.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        extracted?;
        gathered
    }

    /// Features of a reference set: from the cache, or computed and then stored there. Rows are never cached.
    pub(super) fn cached(
        extractor: &mut Extractor,
        set: &super::ImageSet,
        kept: usize,
        progress: TaskProgress<'_>,
    ) -> Result<(Features, StatisticsNote), MetricError> {
        let dataset = &set.dataset;
        let note = StatisticsNote {
            count: dataset.len(),
            pictures: set.info.clone(),
            network: extractor.network().hash().to_string(),
            preset: extractor.preset().to_string(),
        };
        let cache = StatisticsCache::new(note.clone());
        if let Some(statistics) = cache.get().filter(|_| kept == 0) {
            return Ok((Features { statistics, rows: vec![] }, note));
        }
        let size = [dataset.height(), dataset.width(), dataset.channels()];
        let update = |done, total| progress("features of the reference", "images", done, total);
        let features = Features::of(extractor, dataset.pixels(), size, kept, &update)?;
        cache.put(&features.statistics);
        Ok((features, note))
    }
}
