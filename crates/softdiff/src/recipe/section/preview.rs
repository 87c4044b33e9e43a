//! `[preview]`: pictures from fixed noise while training goes on.

use super::sample::{read_sampler, read_steps};
use super::{PathSection, SampleSection, UNLIMITED};
use crate::objective::Objective;
use crate::recipe::reader::Reader;
use crate::recipe::writer::Writer;

/// `[preview]`.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `every` | `false` | steps between two, or false for none |
/// | `images` | `64` | how many |
/// | `steps` | `50`; one-step as in `[sample]` | steps of the sampler |
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
    pub(in crate::recipe) fn read(
        r: &Reader,
        sample: &SampleSection,
        path: &PathSection,
        objective: &Objective,
    ) -> Self {
        let section = PreviewSection {
            every: r.whole_or_off("every", 1..=UNLIMITED).flatten(),
            images: r.size("images", 1..=65_536).unwrap_or(64),
            steps: read_steps(r, objective).unwrap_or(50),
            sampler: read_sampler(r, "sampler", path, objective).unwrap_or_else(|| sample.sampler.clone()),
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
