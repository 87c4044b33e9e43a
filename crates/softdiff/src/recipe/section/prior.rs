//! `[prior]`: where samples start.

use super::{PathSection, UNLIMITED};
use crate::recipe::keys::{Size, SizeOrOff, section_by};
use crate::recipe::reader::Reader;
use crate::recipe::writer::TomlWriter;

section_by! {
    /// `[prior]`, by `kind`: by default "noise" for masking, fading and paths without corruption, else "fitted".
    pub enum PriorSection in "prior" by "kind" () {
        /// Gaussians fitted to the leading modes of the corrupted images.
        Fitted = "fitted" {
            modes: usize = 16, Size(1..=4096), "leading modes of the last corruption";
            components: usize = 1, Size(1..=1024), "Gaussians";
            images: Option<usize> = None, SizeOrOff(1..=UNLIMITED), "the first so many training images; false takes all";
        },
        /// Noise alone.
        Noise = "noise",
        /// Corrupted training images.
        Data = "data" {
            images: Option<usize> = None, SizeOrOff(1..=UNLIMITED), "the first so many training images; false takes all";
        },
    }
}

impl PriorSection {
    pub(in crate::recipe) fn read(r: &Reader, path: &PathSection) -> Self {
        let usual = match path.corruption() {
            Some(corruption) if !corruption.erases() => "fitted",
            _ => "noise",
        };
        let section = Self::read_keys(r, usual);
        r.finish();
        section
    }

    pub(in crate::recipe) fn write(&self, w: &mut TomlWriter) {
        self.write_keys(w);
    }
}
