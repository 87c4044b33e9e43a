//! Statistics of reference sets, kept in the user's cache folder under what they depend on: the pictures, the network and
//! the preset.

use super::Statistics;
use super::statistics_file::Note;
use crate::hash;
use softdiff_engine::atomic_file;
use std::path::PathBuf;

/// Changed when the same inputs would give other statistics.
const VERSION: u32 = 1;

/// Where the statistics of one set lie.
pub struct StatisticsCache {
    path: Option<PathBuf>,
    note: Note,
}

impl StatisticsCache {
    /// The place for what `note` describes: in `$SOFTDIFF_CACHE`, else in `softdiff` of the user's cache folder.
    pub fn new(note: Note) -> StatisticsCache {
        let folder = std::env::var_os("SOFTDIFF_CACHE").map(PathBuf::from).or_else(|| {
            let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
            let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
            base.or_else(home).map(|base| base.join("softdiff"))
        });
        let key = format!("{VERSION} {} {} {} {}", note.pictures.hash, note.count, note.network, note.preset);
        let name = format!("statistics-{:016x}.npz", hash::of_bytes(key.as_bytes()));
        StatisticsCache { path: folder.map(|folder| folder.join(name)), note }
    }

    /// What was kept, if it is there and is what its name promises.
    pub fn get(&self) -> Option<Statistics> {
        let (statistics, note) = Statistics::read(self.path.as_ref()?).ok()?;
        let note = note?;
        let same = note.pictures.hash == self.note.pictures.hash
            && (note.count, note.network, note.preset)
                == (self.note.count, self.note.network.clone(), self.note.preset.clone());
        same.then_some(statistics)
    }

    /// Keeps statistics; a cache that cannot be written is no error.
    pub fn put(&self, statistics: &Statistics) {
        let Some(path) = &self.path else { return };
        if let Some(folder) = path.parent() {
            let made = std::fs::create_dir_all(folder);
            let _ = made.and_then(|()| atomic_file::write(path, |file| statistics.write(file, &self.note)));
        }
    }
}
