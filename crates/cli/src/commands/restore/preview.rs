//! A photograph while it is computed, in a file.

use super::write::make_folder;
use softdiff::engine::atomic_file::PassingFile;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The least time between two previews.
const PREVIEW_EVERY: Duration = Duration::from_secs(3);

/// What a photograph looks like so far, in a file that is removed at the end.
pub struct Preview {
    place: PathBuf,
    file: PassingFile,
    last: Instant,
    shown: bool,
}

impl Preview {
    /// Nothing is written yet.
    pub fn new(place: PathBuf) -> Preview {
        Preview { file: PassingFile::new(&place), place, last: Instant::now(), shown: false }
    }

    /// Writes it anew if that is some time ago.
    pub fn update(&mut self, png: impl FnOnce() -> Vec<u8>) {
        // A preview that cannot be written keeps nobody from the result, whose own error will say why.
        if self.last.elapsed() < PREVIEW_EVERY || make_folder(&self.place).is_err() || self.file.write(&png()).is_err()
        {
            return;
        }
        self.last = Instant::now();
        if !self.shown {
            eprintln!("preview: {}", self.place.display());
            self.shown = true;
        }
    }
}
