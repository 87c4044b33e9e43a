//! The two sides of an evaluation: a set of images, and what it is measured against.

use super::statistics_file::StatisticsNote;
use super::{FeatureStatistics, ImageSetInfo, Made, MetricError};
use crate::data::{Crop, DataError, Dataset, Exif, LoadOptions, Source, Split, Transform};
use crate::recipe::DataSection;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Images in memory, and what a protocol says about them.
#[derive(Clone, Debug)]
pub struct ImageSet {
    /// The images.
    pub dataset: Dataset,
    /// What they are.
    pub info: ImageSetInfo,
    /// How they were made, where their file says so.
    pub made: Option<Made>,
}

/// How images are read for an evaluation.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImageSetOptions {
    /// Which part of the data set.
    pub split: Split,
    /// Width and height to resize to; a set that has this size already stays as it is.
    pub size: Option<(usize, usize)>,
    /// The part of each image that is kept; with `size` the centre if not given.
    pub crop: Option<Crop>,
    /// Channels to convert to.
    pub channels: Option<usize>,
    /// Only the first so many.
    pub limit: Option<usize>,
    /// Whether the EXIF orientation is applied.
    pub exif: Exif,
}

impl ImageSet {
    /// Images that are in memory already, under a name for the protocol.
    pub fn new(dataset: Dataset, name: &str) -> ImageSet {
        let info = ImageSetInfo::of(&dataset, name, Split::All, &Transform::default());
        ImageSet { dataset, info, made: None }
    }

    /// Images that were loaded as a recipe's `[data]` says.
    pub fn of_recipe(dataset: Dataset, data: &DataSection) -> ImageSet {
        let name = file_name(Path::new(&data.source));
        let info = ImageSetInfo::of(&dataset, &name, data.split, &data.load_options().transform);
        ImageSet { dataset, info, made: None }
    }

    /// The images of a folder, an archive or any other data source, as they are.
    pub fn open(path: impl AsRef<Path>) -> Result<ImageSet, DataError> {
        let options = ImageSetOptions::default();
        ImageSet::load(&Source::open_split(path.as_ref(), options.split)?, &options, &|_, _| {})
    }

    /// The images of an opened source; its split is the one of the options.
    pub fn load(
        source: &Source,
        options: &ImageSetOptions,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<ImageSet, DataError> {
        let ImageSetOptions { split, size, crop, channels, limit, exif } = *options;
        let first = source.read(0, exif).ok().map(|image| (image.width, image.height));
        // Generated images usually have the size already, and must not be cropped again.
        let transform = if size.is_some() && first == size {
            Transform { channels, ..Transform::default() }
        } else {
            Transform { crop: Crop::or_usual(crop, size), size, channels }
        };
        let options = LoadOptions { exif, transform, limit, ..LoadOptions::default() };
        let dataset = source.load(&options, progress)?;
        let info = ImageSetInfo::of(&dataset, &file_name(source.path()), split, &transform);
        let made = source.origin().and_then(|origin| Made::deserialize(origin.get("made")?).ok());
        Ok(ImageSet { dataset, info, made })
    }
}

/// What generated images are measured against.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // There is one of them in an evaluation.
pub enum Reference {
    /// Images.
    Images(ImageSet),
    /// Mean and covariance of their features.
    Statistics {
        /// The file.
        path: PathBuf,
        /// What it holds.
        statistics: Box<FeatureStatistics>,
        /// How they were made, where the file says so.
        note: Option<StatisticsNote>,
    },
}

impl Reference {
    /// A statistics file (`.npz` with `mu` and `sigma`), or the images of any data source.
    pub fn open(path: impl AsRef<Path>) -> Result<Reference, MetricError> {
        let path = path.as_ref();
        match FeatureStatistics::recognise(path) {
            true => Reference::read_statistics(path),
            false => Ok(ImageSet::open(path)?.into()),
        }
    }

    /// A statistics file.
    pub fn read_statistics(path: &Path) -> Result<Reference, MetricError> {
        let (statistics, note) = FeatureStatistics::read(path)?;
        Ok(Reference::Statistics { path: path.into(), statistics: Box::new(statistics), note })
    }

    /// The reference for a protocol.
    pub fn info(&self) -> Result<ImageSetInfo, MetricError> {
        match self {
            Reference::Images(set) => Ok(set.info.clone()),
            Reference::Statistics { note: Some(note), .. } => Ok(note.pictures.clone()),
            Reference::Statistics { path, statistics, note: None } => Ok(ImageSetInfo {
                source: file_name(path),
                hash: statistics.hash()?.to_string(),
                ..ImageSetInfo::default()
            }),
        }
    }

    /// Refuses images of another size.
    pub fn check_size(&self, images: &ImageSet) -> Result<(), MetricError> {
        match self {
            Reference::Images(set) => ImageSetInfo::check_sizes(images.info.size, set.info.size),
            Reference::Statistics { .. } => Ok(()),
        }
    }
}

impl From<ImageSet> for Reference {
    fn from(set: ImageSet) -> Reference {
        Reference::Images(set)
    }
}

/// The last part of a path: whole paths say more about a machine than about a result.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The bytes of up to half of the images, evenly spaced; with another offset, other images where there are enough.
pub fn evenly_spaced(dataset: &Dataset, offset: usize, most: usize) -> Vec<u8> {
    let count = most.min(dataset.len() / 2).max(1);
    let every = dataset.len() / count;
    (0..count).flat_map(|i| dataset.picture(i * every + offset.min(every - 1))).copied().collect()
}
