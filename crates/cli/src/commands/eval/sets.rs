//! The two sets of images: the generated ones, and what they are measured against.

use crate::commands::data::{Channels, ExifFlag, SplitName, explain, explain_opening, parse_size};
use crate::diagnostics::Failure;
use crate::progress::Progress;
use clap::Args;
use softdiff::data::{Crop, Source, Split};
use softdiff::metrics::{FeatureStatistics, ImageSet, ImageSetOptions, Reference};
use std::path::{Path, PathBuf};

/// Flags that choose and treat images.
#[derive(Args)]
pub struct SetFlags {
    /// The generated images: a folder, zip, tar, npz or anything else that softdiff data reads; for likelihood, a run or model.
    #[arg(required = true)]
    images: Option<PathBuf>,
    /// What they should look like: a data set, or statistics (.npz with mu and sigma).
    #[arg(long, value_name = "REFERENCE", required = true)]
    against: Option<PathBuf>,
    /// Resize to this side, or to a width and height such as 64x48; a set that has this size already stays as it is.
    #[arg(long, value_name = "SIDE", value_parser = parse_size)]
    size: Option<(usize, usize)>,
    /// What to keep of an image that is resized: none (all), centre, celeba, or a centred part [default: centre with --size].
    #[arg(long)]
    crop: Option<Crop>,
    /// Convert both to grey or RGB.
    #[arg(long, value_enum)]
    channels: Option<Channels>,
    #[command(flatten)]
    exif: ExifFlag,
    /// Which part of the generated set, if it has several.
    #[arg(long, value_enum, default_value_t, value_name = "PART")]
    split: SplitName,
    /// Which part of the reference.
    #[arg(long, value_enum, default_value_t, value_name = "PART")]
    against_split: SplitName,
    /// Only the first N generated images.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Only the first N images of the reference.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    against_limit: Option<u32>,
}

impl SetFlags {
    /// Loads both, and refuses sets of different sizes.
    pub fn load(&self) -> Result<(ImageSet, Reference), Failure> {
        let [images, against] = [&self.images, &self.against]
            .map(|path| path.clone().expect("required unless a subcommand takes its place"));
        let images = self.set(&images, self.split.into(), self.limit)?;
        let reference = match FeatureStatistics::recognise(&against) {
            true => Reference::read_statistics(&against)?,
            false => self.set(&against, self.against_split.into(), self.against_limit)?.into(),
        };
        reference.check_size(&images)?;
        Ok((images, reference))
    }

    /// The model and the images of a likelihood.
    pub fn model_and_images(&self) -> Result<(PathBuf, ImageSet), Failure> {
        let [model, against] = [&self.images, &self.against]
            .map(|path| path.clone().expect("required unless a subcommand takes its place"));
        if FeatureStatistics::recognise(&against) {
            let failure = Failure::new(format!("{} holds statistics, and likelihood needs images", against.display()));
            return Err(failure.hint("give --against the data set itself"));
        }
        Ok((model, self.set(&against, self.against_split.into(), self.against_limit)?))
    }

    fn set(&self, path: &Path, split: Split, limit: Option<u32>) -> Result<ImageSet, Failure> {
        let source = Source::open_split(path, split).map_err(explain_opening)?;
        let options = ImageSetOptions {
            split,
            size: self.size,
            crop: self.crop,
            channels: self.channels.map(Channels::count),
            limit: limit.map(|limit| limit as usize),
            exif: self.exif.into(),
        };
        let progress = Progress::new("decoding", "images");
        ImageSet::load(&source, &options, &|done, total| progress.update(done, total)).map_err(explain)
    }
}
