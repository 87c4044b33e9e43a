//! `[preview]`: images from fixed noise while training goes on.

use super::sample::{SamplerKey, check_sampler, check_steps};
use super::{PathSection, SampleSection, UNLIMITED};
use crate::objective::Objective;
use crate::recipe::keys::{Size, WholeOrOff, section};
use crate::recipe::reader::Reader;
use crate::recipe::writer::TomlWriter;
use crate::sampler::MOST_STEPS;

section! {
    /// `[preview]`.
    pub struct PreviewSection in "preview" (sampler: String) {
        every: Option<u64> = None, WholeOrOff(1..=UNLIMITED), "steps between two";
        images: usize = 64, Size(1..=65_536), "how many";
        steps: usize = 50, Size(1..=MOST_STEPS as u64), "steps of the sampler; of a one-step network as in [sample]";
        sampler: String = sampler, SamplerKey, "its name; by default as in [sample]";
    }
}

impl PreviewSection {
    pub(in crate::recipe) fn read(
        r: &Reader,
        sample: &SampleSection,
        path: &PathSection,
        objective: &Objective,
    ) -> Self {
        let mut section = Self::read_keys(r, Self::defaults(sample.sampler.clone()));
        check_steps(r, &mut section.steps, objective);
        check_sampler(r, "sampler", &mut section.sampler, &sample.sampler, path, objective);
        r.finish();
        section
    }

    pub(in crate::recipe) fn write(&self, w: &mut TomlWriter) {
        self.write_keys(w, &[]);
    }
}
