//! Decoding a whole source on all cores, in order, under a policy for bad images.

use super::pictures::StoredPictures;
use super::{DataError, Dataset, Exif, FileError, MAX_DATASET_BYTES, Source, Transform};
use crate::image::Picture;
use rayon::prelude::*;
use softdiff_engine::memory;
use softdiff_engine::shared_bytes::{SharedBytes, SharedBytesError};
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The most images decoded between two looks at the policy and the progress, and the most bytes of them.
const CHUNK: usize = 256;
const CHUNK_BYTES: usize = 256 << 20;

/// What to do with an image that cannot be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBad {
    /// Stop and name it.
    #[default]
    Fail,
    /// Leave it out and list it; stop if there are more than the [`BadLimit`].
    Skip,
}

/// The largest share of images that may be left out as bad, from 0 to 1; by default a hundredth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BadLimit(pub f64);

impl Default for BadLimit {
    fn default() -> BadLimit {
        BadLimit(0.01)
    }
}

impl BadLimit {
    /// Whether so many of `total` are too many.
    pub fn is_exceeded(self, bad: usize, total: usize) -> bool {
        // 0.29 of 100 is 28.999...96 in binary.
        bad as f64 > total as f64 * self.0 * (1.0 + 1e-9)
    }
}

impl fmt::Display for BadLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", (self.0 * 1e6).round() / 1e4)
    }
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
    /// How many of them may be left out.
    pub on_bad_limit: BadLimit,
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
        self.load_in(None, options, progress)
    }

    /// The same; images that do not fit into memory go to a file without a name in `folder`, which is gone when they are.
    pub fn load_beside(
        &self,
        folder: &Path,
        options: &LoadOptions,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Dataset, DataError> {
        self.load_in(Some(folder), options, progress)
    }

    fn load_in(
        &self,
        folder: Option<&Path>,
        options: &LoadOptions,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Dataset, DataError> {
        let total = options.limit.unwrap_or(usize::MAX).min(self.len());
        if let Some(dataset) = self.stored_set(total, &options.transform) {
            progress(total, total);
            return Ok(dataset);
        }
        let (kept, skipped) = (Vec::new(), Vec::new());
        let pixels = Destination::Memory(Vec::new());
        let mut loading = Loading { source: self, folder, total, shape: None, pixels, kept, skipped };
        let mut end = 0;
        while end < total {
            let start = end;
            end = (start + loading.chunk()).min(total);
            let decode = |index| self.read(index, options.exif).and_then(|picture| options.transform.apply(picture));
            let decoded: Vec<Result<Picture, FileError>> = (start..end).into_par_iter().map(decode).collect();
            for (index, picture) in (start..).zip(decoded) {
                loading.add(index, picture, options)?;
            }
            self.release();
            progress(end, total);
        }
        loading.finish()
    }

    /// The first `total` images where they lie decoded and are taken as they are. Those of a mapped file are copied if they fit
    /// into memory, where nobody can change them; otherwise they stay in the file.
    fn stored_set(&self, total: usize, transform: &Transform) -> Option<Dataset> {
        let StoredPictures { shape, pixels } = self.stored()?;
        let [height, width, channels] = shape;
        if total == 0 || !transform.keeps(width, height, channels) {
            return None;
        }
        let mut pixels = pixels.slice(0..total * height * width * channels)?;
        if pixels.is_mapped() && memory::require(pixels.len() as u64, "", "").is_ok() {
            pixels = pixels.to_vec().into();
        }
        let labels: Option<Vec<u32>> = (0..total).map(|index| self.label(index)).collect();
        Some(Dataset::of_shared(shape, pixels, labels, self.classes().to_vec()))
    }
}

/// Where decoded images go.
enum Destination {
    Memory(Vec<u8>),
    File(BufWriter<File>),
}

impl Destination {
    fn add(&mut self, pixels: &[u8]) -> io::Result<()> {
        match self {
            Destination::Memory(all) => all.extend_from_slice(pixels),
            Destination::File(file) => file.write_all(pixels)?,
        }
        Ok(())
    }
}

/// A data set in the making.
struct Loading<'a> {
    source: &'a Source,
    /// Where a file for images that do not fit into memory may be.
    folder: Option<&'a Path>,
    total: usize,
    /// Width, height and channels of the first image, and which it was.
    shape: Option<(usize, usize, usize, usize)>,
    pixels: Destination,
    kept: Vec<usize>,
    skipped: Vec<Skipped>,
}

impl Loading<'_> {
    /// How many images to decode at once: one until the size is known, so that what does not fit is refused before it is decoded.
    fn chunk(&self) -> usize {
        self.shape.map_or(1, |(width, height, channels, _)| (CHUNK_BYTES / (width * height * channels)).clamp(1, CHUNK))
    }

    fn add(
        &mut self,
        index: usize,
        picture: Result<Picture, FileError>,
        options: &LoadOptions,
    ) -> Result<(), DataError> {
        let picture = match picture {
            Ok(picture) => picture,
            Err(error) if options.on_bad == OnBad::Skip => return self.skip(index, error, options.on_bad_limit),
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
        let written = self.pixels.add(&picture.with_channels(channels).pixels);
        written.map_err(|error| self.unwritable(error))?;
        self.kept.push(index);
        Ok(())
    }

    /// The first image decides the size, and so the memory.
    fn begin(&mut self, index: usize, picture: &Picture) -> Result<(usize, usize, usize, usize), DataError> {
        let bytes = picture.pixels.len() as u64 * (self.total - index) as u64;
        let Picture { width, height, channels, .. } = *picture;
        self.pixels = match (self.reserve(bytes, picture), self.folder) {
            (Ok(pixels), _) => Destination::Memory(pixels),
            (Err(DataError::Memory(_) | DataError::TooLarge { .. }), Some(folder)) => {
                let file = tempfile::tempfile_in(folder).map_err(|error| self.unwritable(error))?;
                Destination::File(BufWriter::with_capacity(1 << 20, file))
            }
            (Err(error), _) => return Err(error),
        };
        let shape = (width, height, channels, index);
        self.shape = Some(shape);
        Ok(shape)
    }

    /// Room for images like this one.
    fn reserve(&self, bytes: u64, picture: &Picture) -> Result<Vec<u8>, DataError> {
        let too_large = || DataError::TooLarge { bytes, limit: MAX_DATASET_BYTES };
        let Picture { width, height, channels, .. } = *picture;
        let what = format!("{} images of {width} x {height} x {channels}", self.total);
        let hint = "give smaller or fewer images, or softdiff data prepare writes a file that need not fit into memory";
        memory::require(bytes, what, hint)?;
        if bytes > MAX_DATASET_BYTES {
            return Err(too_large());
        }
        let mut pixels = Vec::new();
        pixels.try_reserve_exact(bytes as usize).map_err(|_| too_large())?;
        Ok(pixels)
    }

    fn unwritable(&self, source: io::Error) -> DataError {
        DataError::Io { path: self.folder.unwrap_or(self.source.path()).into(), source }
    }

    fn skip(&mut self, index: usize, error: FileError, limit: BadLimit) -> Result<(), DataError> {
        self.skipped.push(Skipped { file: self.source.picture_name(index), reason: error.to_string() });
        if limit.is_exceeded(self.skipped.len(), self.total) {
            let skipped = std::mem::take(&mut self.skipped);
            return Err(DataError::TooManySkipped { total: self.total, limit, skipped });
        }
        Ok(())
    }

    fn finish(self) -> Result<Dataset, DataError> {
        let Some((width, height, channels, _)) = self.shape else {
            return Err(DataError::Empty { path: self.source.path().into(), ignored: self.source.ignored() });
        };
        let labels: Option<Vec<u32>> = self.kept.iter().map(|&index| self.source.label(index)).collect();
        let classes = self.source.classes().to_vec();
        let unwritable = |source| DataError::Io { path: self.folder.unwrap_or(self.source.path()).into(), source };
        let pixels = match self.pixels {
            Destination::Memory(pixels) => pixels.into(),
            Destination::File(file) => {
                let file = file.into_inner().map_err(|error| unwritable(error.into_error()))?;
                SharedBytes::map(&file).map_err(|error| match error {
                    SharedBytesError::Io(error) => unwritable(error),
                    SharedBytesError::Memory(error) => error.into(),
                })?
            }
        };
        let dataset = Dataset::of_shared([height, width, channels], pixels, labels, classes);
        Ok(dataset.with_skipped(self.skipped))
    }
}
