//! Statistics of reference sets, kept in the user's cache folder under what they depend on: the images, the network and
//! the preset.

use super::FeatureStatistics;
use super::statistics_file::StatisticsNote;
use softdiff_engine::cache;
use softdiff_engine::hash::ContentHash;

/// Changed when the same inputs would give other statistics.
const VERSION: u32 = 1;

/// Where the statistics of one set lie.
pub struct StatisticsCache {
    name: String,
    note: StatisticsNote,
}

impl StatisticsCache {
    /// The place for what `note` describes: a file of the user's cache folder.
    pub fn new(note: StatisticsNote) -> StatisticsCache {
        let key = format!("{VERSION} {} {} {} {}", note.pictures.hash, note.count, note.network, note.preset);
        let name = format!("statistics-{}.npz", ContentHash::of(key.as_bytes()).hex());
        StatisticsCache { name, note }
    }

    /// What was kept, if it is there and is what its name promises.
    pub fn get(&self) -> Option<FeatureStatistics> {
        let (statistics, note) = FeatureStatistics::read(&cache::file(&self.name)?).ok()?;
        let note = note?;
        let same = note.pictures.hash == self.note.pictures.hash
            && (note.count, note.network, note.preset)
                == (self.note.count, self.note.network.clone(), self.note.preset.clone());
        same.then_some(statistics)
    }

    /// Keeps statistics; a cache that cannot be written is no error.
    pub fn put(&self, statistics: &FeatureStatistics) {
        cache::store(&self.name, |file| statistics.write(file, &self.note));
    }
}
