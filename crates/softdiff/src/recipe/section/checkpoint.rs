//! `[checkpoint]`: how often, and which stay.

use super::UNLIMITED;
use crate::checkpoint::{Better, Retention};
use crate::recipe::reader::Reader;
use crate::recipe::writer::Writer;

/// Metrics of which more is better; of all others, such as FID, less.
const HIGHER: [&str; 6] = ["psnr", "ssim", "precision", "recall", "coverage", "inception-score"];

/// `[checkpoint]`.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `every` | `10_000` | steps between two |
/// | `keep_last` | `3` | the newest so many stay |
/// | `keep_every` | `false` | those at multiples of so many steps stay too |
/// | `keep_best` | `1` | the best by the metric stays too: 0 or 1 |
/// | `metric` | `"fid"` | what decides: `"fid"`, which needs the Inception network, or `"sliced-wasserstein"` |
/// | `images` | `1000` | images to measure it on, at least 2 |
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CheckpointSection {
    pub every: u64,
    pub keep_last: usize,
    pub keep_every: Option<u64>,
    pub keep_best: usize,
    pub metric: String,
    pub images: usize,
}

impl Default for CheckpointSection {
    fn default() -> Self {
        let metric = "fid".to_owned();
        CheckpointSection { every: 10_000, keep_last: 3, keep_every: None, keep_best: 1, metric, images: 1000 }
    }
}

impl CheckpointSection {
    /// The rule for the store of checkpoints.
    pub fn retention(&self) -> Retention {
        let better = if HIGHER.contains(&self.metric.as_str()) { Better::Higher } else { Better::Lower };
        Retention { last: self.keep_last, every: self.keep_every, best: (self.keep_best > 0).then_some(better) }
    }

    pub(in crate::recipe) fn read(r: &Reader) -> Self {
        let usual = CheckpointSection::default();
        let section = CheckpointSection {
            every: r.whole("every", 1..=UNLIMITED).unwrap_or(usual.every),
            keep_last: r.size("keep_last", 1..=1_000_000).unwrap_or(usual.keep_last),
            keep_every: r.whole_or_off("keep_every", 1..=UNLIMITED).unwrap_or(usual.keep_every),
            keep_best: r.size("keep_best", 0..=1).unwrap_or(usual.keep_best),
            metric: r.text("metric").unwrap_or(usual.metric),
            images: r.size("images", 2..=1_000_000).unwrap_or(usual.images),
        };
        r.finish();
        section
    }

    pub(in crate::recipe) fn write(&self, w: &mut Writer) {
        w.section("checkpoint");
        w.value("every", &self.every);
        w.value("keep_last", &self.keep_last);
        w.value("keep_every", &self.keep_every);
        w.value("keep_best", &self.keep_best);
        w.value("metric", &self.metric);
        w.value("images", &self.images);
    }
}
