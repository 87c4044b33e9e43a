//! `[checkpoint]`: how often, and which stay.

use super::UNLIMITED;
use crate::checkpoint::{Better, Retention};
use crate::recipe::keys::{Size, Text, Whole, WholeOrOff, section};
use crate::recipe::reader::Reader;
use crate::recipe::writer::TomlWriter;

/// Metrics of which more is better; of all others, such as FID, less.
const HIGHER: [&str; 6] = ["psnr", "ssim", "precision", "recall", "coverage", "inception-score"];

section! {
    /// `[checkpoint]`.
    pub struct CheckpointSection in "checkpoint" () {
        every: u64 = 10_000, Whole(1..=UNLIMITED), "steps between two";
        keep_last: usize = 3, Size(1..=1_000_000), "the newest so many stay";
        keep_every: Option<u64> = None, WholeOrOff(1..=UNLIMITED), "those at multiples of so many steps stay too";
        keep_best: usize = 1, Size(0..=1), "the best by the metric stays too: 0 or 1";
        metric: String = "fid".to_owned(), Text(), "what decides which is best: \"fid\", which needs the Inception network, \"sliced-wasserstein\", or \"held-out-loss\": the training loss on the test part of the data, with that on as many training images beside it";
        images: usize = 1000, Size(2..=1_000_000), "images to measure it on";
    }
}

impl Default for CheckpointSection {
    fn default() -> Self {
        Self::defaults()
    }
}

impl CheckpointSection {
    /// The rule for the store of checkpoints.
    pub fn retention(&self) -> Retention {
        let better = if HIGHER.contains(&self.metric.as_str()) { Better::Higher } else { Better::Lower };
        Retention { last: self.keep_last, every: self.keep_every, best: (self.keep_best > 0).then_some(better) }
    }

    pub(in crate::recipe) fn read(r: &Reader) -> Self {
        let section = Self::read_keys(r, Self::defaults());
        r.finish();
        section
    }

    pub(in crate::recipe) fn write(&self, w: &mut TomlWriter) {
        self.write_keys(w, &[]);
    }
}
