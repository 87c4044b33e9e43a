//! Features of the two sets, each computed once.

use super::Measure;
use super::sets::{Reference, Set};
use crate::atomic_file::{self, unwritable};
use crate::diagnostics::Failure;
use crate::progress::Progress;
use softdiff::data::Dataset;
use softdiff::hash;
use softdiff::inception::{Extractor, FEATURES};
use softdiff::metrics::{MetricError, Note, Statistics, StatisticsCache};
use std::panic::resume_unwind;
use std::sync::mpsc::sync_channel;

/// Batches that may wait for the statistics.
const AHEAD: usize = 4;

/// Mean and covariance of a set's features, and the features of its first pictures.
pub struct Features {
    /// Of all pictures.
    pub statistics: Statistics,
    /// As many as were asked for.
    pub rows: Vec<f32>,
}

impl Features {
    /// Runs the network over a set; keeps the first `kept` rows.
    pub fn of(
        extractor: &mut Extractor,
        dataset: &Dataset,
        kept: usize,
        task: &'static str,
    ) -> Result<Features, Failure> {
        let progress = Progress::new(task, "pictures");
        let limit = kept.min(dataset.len()) * FEATURES;
        let size = [dataset.height(), dataset.width(), dataset.channels()];
        let (send, receive) = sync_channel::<Vec<f32>>(AHEAD);
        let gather = || -> Result<Features, MetricError> {
            let mut features = Features { statistics: Statistics::new(FEATURES), rows: vec![] };
            for batch in receive {
                features.statistics.add(&batch)?;
                features.rows.extend_from_slice(&batch[..batch.len().min(limit - features.rows.len())]);
                progress.update(features.statistics.count(), dataset.len());
            }
            Ok(features)
        };
        // The covariance costs the processor seconds, in which a GPU need not wait.
        let (extracted, gathered) = std::thread::scope(|scope| {
            let gathering = scope.spawn(gather);
            // Who failed listens no longer, and tells why below.
            let extracted = extractor.each_batch(dataset.pixels(), size, &mut |batch| drop(send.send(batch.to_vec())));
            drop(send);
            (extracted, gathering.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        extracted?;
        Ok(gathered?)
    }

    /// Features of the reference: from a file, from the cache, or computed and then kept.
    pub fn of_reference(
        flags: &Measure,
        extractor: &mut Extractor,
        reference: &Reference,
        kept: usize,
    ) -> Result<Features, Failure> {
        let (network, preset) = (hash::to_text(extractor.network().hash()), extractor.preset().to_string());
        let set: &Set = match reference {
            Reference::Set(set) => set,
            Reference::Statistics { path, statistics, note } => {
                let made =
                    note.as_ref().map(|note| [("network", &note.network, &network), ("preset", &note.preset, &preset)]);
                let unlike = made.into_iter().flatten().find(|(_, found, wanted)| found != wanted);
                if let Some((field, found, expected)) = unlike {
                    let (found, expected) = (found.clone(), expected.clone());
                    return Err(MetricError::StatisticsProtocol { path: path.clone(), field, found, expected }.into());
                }
                return Ok(Features { statistics: (**statistics).clone(), rows: vec![] });
            }
        };
        let note = Note { count: set.dataset.len(), pictures: set.pictures.clone(), network, preset };
        let cache = StatisticsCache::new(note.clone());
        let features = match cache.get().filter(|_| kept == 0) {
            Some(statistics) => Features { statistics, rows: vec![] },
            None => {
                let features = Features::of(extractor, &set.dataset, kept, "features of the reference")?;
                cache.put(&features.statistics);
                features
            }
        };
        if let Some(path) = &flags.save_statistics {
            atomic_file::write(path, |file| features.statistics.write(file, &note))
                .map_err(|error| unwritable(path, &error))?;
        }
        Ok(features)
    }
}
