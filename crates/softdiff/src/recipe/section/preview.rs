//! `[preview]`: pictures from fixed noise while training goes on.

use super::sample::read_sampler;
use super::{PathSection, SampleSection, UNLIMITED};
use crate::recipe::reader::Reader;
use crate::recipe::writer::Writer;

/// `[preview]`.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `every` | `false` | steps between two, or false for none |
/// | `images` | `64` | how many |
/// | `steps` | `50` | steps of the sampler |
/// | `sampler` | as in `[sample]` | its name |
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PreviewSection {
    pub every: Option<u64>,
    pub images: usize,
    pub steps: usize,
    pub sampler: String,
}

impl PreviewSection {
    pub(in crate::recipe) fn read(r: &Reader, sample: &SampleSection, path: &PathSection) -> Self {
        let section = PreviewSection {
            every: r.whole_or_off("every", 1..=UNLIMITED).flatten(),
            images: r.size("images", 1..=65_536).unwrap_or(64),
            steps: r.size("steps", 1..=1_000_000).unwrap_or(50),
            sampler: read_sampler(r, "sampler", path).unwrap_or_else(|| sample.sampler.clone()),
        };
        r.finish();
        section
    }

    pub(in crate::recipe) fn write(&self, w: &mut Writer) {
        w.section("preview");
        w.value("every", &self.every);
        w.value("images", &self.images);
        w.value("steps", &self.steps);
        w.value("sampler", &self.sampler);
    }
}
