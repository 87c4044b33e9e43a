//! `[prior]`: where samples start.

use super::{PathSection, UNLIMITED};
use crate::corruption::Shape;
use crate::path::{Path, PathError};
use crate::prior::{Prior, PriorError};
use crate::recipe::keys::{Size, SizeOrOff, section_by};
use crate::recipe::reader::Reader;
use crate::recipe::writer::TomlWriter;
use softdiff_engine::pixels::PixelValue;

/// Modes of a prior where nothing else is asked for.
const MODES: usize = 16;

section_by! {
    /// `[prior]`, by `kind`: by default "noise" for masking, fading and paths without corruption, else "fitted".
    pub enum PriorSection in "prior" by "kind" () {
        /// Gaussians fitted to the leading modes of the corrupted images.
        Fitted = "fitted" {
            modes: usize = MODES, Size(1..=4096), "leading modes of the last corruption";
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
    /// The prior for a path that no recipe describes and so many images: noise where C_1 leaves less of an image than there is
    /// noise, else fitted.
    pub fn usual(path: &Path, images: usize) -> Result<PriorSection, PathError> {
        let shape = path.shape();
        let last = path.at(1.0)?;
        let white = last.map.apply(shape, &vec![1.0; shape.len()])?;
        let left = (white.iter().map(|x| x * x).sum::<f64>() / shape.len() as f64).sqrt();
        Ok(match left < last.sigma {
            true => PriorSection::Noise,
            false => PriorSection::Fitted { modes: MODES, components: 1, images: None }.for_images(shape, images),
        })
    }

    /// The same with no more modes than so many images can fix: a Gaussian needs more images than dimensions.
    pub(crate) fn for_images(mut self, shape: Shape, images: usize) -> PriorSection {
        if let PriorSection::Fitted { modes, .. } = &mut self {
            *modes = (*modes).min(shape.pixels()).min((images / 2 / shape.channels).max(1));
        }
        self
    }

    /// p_1 of a path, for these images.
    pub fn make<V: PixelValue>(&self, path: &Path, images: &[V], seed: u64) -> Result<Prior, PriorError> {
        let first = |count: &Option<usize>| {
            let values = count.map_or(images.len(), |count| count.saturating_mul(path.shape().len()));
            &images[..values.min(images.len())]
        };
        match self {
            PriorSection::Noise => Prior::noise(path),
            PriorSection::Data { images } => Prior::data(path, first(images), 1.0),
            PriorSection::Fitted { modes, components, images } => {
                Prior::fitted(path, first(images), *modes, *components, seed)
            }
        }
    }

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
