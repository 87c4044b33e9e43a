//! Decoding a whole source on all cores, in order, under a policy for bad images.

use super::{DataError, Dataset, Exif, FileError, MAX_DATASET_BYTES, MAX_SKIPPED_PERCENT, Source, Transform};
use crate::image::Picture;
use rayon::prelude::*;
use std::fmt;
use std::path::Path;

/// Images decoded between two looks at the policy and the progress.
const CHUNK: usize = 256;

/// What to do with an image that cannot be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBad {
    /// Stop and name it.
    #[default]
    Fail,
    /// Leave it out and list it; stop if more than [`MAX_SKIPPED_PERCENT`] are bad.
    Skip,
}

/// An image that was left out, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The file or entry.
    pub file: String,
    /// The reason, in words.
    pub reason: String,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.reason)
    }
}

/// How to load a source.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    /// Whether images are turned upright first.
    pub exif: Exif,
    /// What is done to each image.
    pub transform: Transform,
    /// What to do with bad ones.
    pub on_bad: OnBad,
    /// Only the first so many.
    pub limit: Option<usize>,
}

impl Dataset {
    /// Loads what [`Source::open`] finds, all of it and as it is.
    pub fn open(path: impl AsRef<Path>) -> Result<Dataset, DataError> {
        Source::open(path.as_ref())?.load(&LoadOptions::default(), &|_, _| {})
    }
}

impl Source {
    /// Decodes all pictures. `progress` hears how many of how many are done. The result does not depend on the number of
    /// threads.
    pub fn load(&self, options: &LoadOptions, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Dataset, DataError> {
        let total = options.limit.unwrap_or(usize::MAX).min(self.len());
        let mut loading =
            Loading { source: self, total, shape: None, pixels: Vec::new(), kept: Vec::new(), skipped: Vec::new() };
        for start in (0..total).step_by(CHUNK) {
            let end = (start + CHUNK).min(total);
            let decode = |index| self.read(index, options.exif).and_then(|picture| options.transform.apply(picture));
            let decoded: Vec<Result<Picture, FileError>> = (start..end).into_par_iter().map(decode).collect();
            for (index, picture) in (start..).zip(decoded) {
                loading.add(index, picture, options)?;
            }
            progress(end, total);
        }
        loading.finish()
    }
}

/// A data set in the making.
struct Loading<'a> {
    source: &'a Source,
    total: usize,
    /// Width, height and channels of the first image, and which it was.
    shape: Option<(usize, usize, usize, usize)>,
    pixels: Vec<u8>,
    kept: Vec<usize>,
    skipped: Vec<Skipped>,
}

impl Loading<'_> {
    fn add(
        &mut self,
        index: usize,
        picture: Result<Picture, FileError>,
        options: &LoadOptions,
    ) -> Result<(), DataError> {
        let picture = match picture {
            Ok(picture) => picture,
            Err(error) if options.on_bad == OnBad::Skip => return self.skip(index, error),
            Err(error) => return Err(DataError::file(self.source.picture_name(index), error)),
        };
        let (width, height, channels, first) = match self.shape {
            Some(shape) => shape,
            None => self.begin(index, &picture)?,
        };
        let name = |index| self.source.picture_name(index);
        if (picture.width, picture.height) != (width, height) {
            let (first_size, other_size) = ((width, height), (picture.width, picture.height));
            return Err(DataError::Sizes { first: name(first), first_size, other: name(index), other_size });
        }
        if picture.channels > channels {
            return Err(DataError::MixedColours { grey: name(first), colour: name(index) });
        }
        // A grey image among coloured ones loses nothing.
        self.pixels.extend(picture.with_channels(channels).pixels);
        self.kept.push(index);
        Ok(())
    }

    /// The first image decides the size, and so the memory.
    fn begin(&mut self, index: usize, picture: &Picture) -> Result<(usize, usize, usize, usize), DataError> {
        let bytes = picture.pixels.len() as u64 * (self.total - index) as u64;
        let too_large = || DataError::TooLarge { bytes, limit: MAX_DATASET_BYTES };
        if bytes > MAX_DATASET_BYTES {
            return Err(too_large());
        }
        self.pixels.try_reserve_exact(bytes as usize).map_err(|_| too_large())?;
        let shape = (picture.width, picture.height, picture.channels, index);
        self.shape = Some(shape);
        Ok(shape)
    }

    fn skip(&mut self, index: usize, error: FileError) -> Result<(), DataError> {
        self.skipped.push(Skipped { file: self.source.picture_name(index), reason: error.to_string() });
        if self.skipped.len() * 100 > self.total * MAX_SKIPPED_PERCENT {
            return Err(DataError::TooManySkipped { total: self.total, skipped: std::mem::take(&mut self.skipped) });
        }
        Ok(())
    }

    fn finish(self) -> Result<Dataset, DataError> {
        let Some((width, height, channels, _)) = self.shape else {
            return Err(DataError::Empty { path: self.source.path().into(), ignored: self.source.ignored() });
        };
        let labels: Option<Vec<u32>> = self.kept.iter().map(|&index| self.source.label(index)).collect();
        let dataset = Dataset::new(height, width, channels, self.pixels, labels, self.source.classes().to_vec());
        Ok(dataset.with_skipped(self.skipped))
    }
}
