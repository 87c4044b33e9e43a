//! The two sets of pictures: the generated ones, and what they are measured against.

use crate::commands::data::{Channels, ExifFlag, Part, explain, explain_opening, parse_size};
use crate::diagnostics::Failure;
use crate::progress::Progress;
use clap::Args;
use serde::Deserialize;
use softdiff::data::{Crop, Dataset, LoadOptions, Source, Split, Transform};
use softdiff::metrics::{Made, MetricError, Note, Pictures, Statistics};
use std::path::{Path, PathBuf};

/// Flags that choose and treat pictures.
#[derive(Args)]
pub struct SetFlags {
    /// The generated pictures: a folder, zip, tar, npz or anything else that softdiff data reads; for likelihood, a run or model.
    #[arg(required = true)]
    images: Option<PathBuf>,
    /// What they should look like: a data set, or statistics (.npz with mu and sigma).
    #[arg(long, value_name = "REFERENCE", required = true)]
    against: Option<PathBuf>,
    /// Resize to this side, or to a width and height such as 64x48; a set that has this size already stays as it is.
    #[arg(long, value_name = "SIDE", value_parser = parse_size)]
    size: Option<(usize, usize)>,
    /// What to keep of a picture that is resized: none (all), centre, celeba, or a centred part [default: centre with --size].
    #[arg(long)]
    crop: Option<Crop>,
    /// Convert both to grey or RGB.
    #[arg(long, value_enum)]
    channels: Option<Channels>,
    #[command(flatten)]
    exif: ExifFlag,
    /// Which part of the generated set, if it has several.
    #[arg(long, value_enum, default_value_t, value_name = "PART")]
    split: Part,
    /// Which part of the reference.
    #[arg(long, value_enum, default_value_t, value_name = "PART")]
    against_split: Part,
    /// Only the first N generated pictures.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Only the first N pictures of the reference.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    against_limit: Option<u32>,
}

/// A loaded set.
pub struct Set {
    pub dataset: Dataset,
    pub pictures: Pictures,
    /// How they were made, where their file says so.
    pub made: Option<Made>,
}

/// What the generated pictures are measured against.
pub enum Reference {
    /// Pictures.
    Set(Set),
    /// Their mean and covariance, and how these were made where the file says so.
    Statistics { path: PathBuf, statistics: Box<Statistics>, note: Option<Note> },
}

impl Reference {
    /// The reference for a protocol.
    pub fn pictures(&self) -> Result<Pictures, MetricError> {
        match self {
            Reference::Set(set) => Ok(set.pictures.clone()),
            Reference::Statistics { note: Some(note), .. } => Ok(note.pictures.clone()),
            Reference::Statistics { path, statistics, note: None } => Ok(Pictures {
                source: name(path),
                hash: softdiff::hash::to_text(statistics.hash()?),
                ..Pictures::default()
            }),
        }
    }
}

impl SetFlags {
    /// Loads both, and refuses sets of different sizes.
    pub fn load(&self) -> Result<(Set, Reference), Failure> {
        // Both are required unless a subcommand takes their place.
        let [images, against] = [&self.images, &self.against].map(|path| path.clone().unwrap_or_default());
        let images = self.set(&images, self.split.into(), self.limit)?;
        if Statistics::recognise(&against) {
            let (statistics, note) = Statistics::read(&against)?;
            let statistics = Box::new(statistics);
            return Ok((images, Reference::Statistics { path: against, statistics, note }));
        }
        let reference = self.set(&against, self.against_split.into(), self.against_limit)?;
        let size = |set: &Set| set.pictures.size.map(|side| side.to_string()).join(" x ");
        if images.pictures.size != reference.pictures.size {
            return Err(MetricError::Sizes { left: size(&images), right: size(&reference) }.into());
        }
        Ok((images, Reference::Set(reference)))
    }

    /// The model and the pictures of a likelihood.
    pub fn model_and_pictures(&self) -> Result<(PathBuf, Set), Failure> {
        let [model, against] = [&self.images, &self.against].map(|path| path.clone().unwrap_or_default());
        if Statistics::recognise(&against) {
            let failure =
                Failure::new(format!("{} holds statistics, and likelihood needs pictures", against.display()));
            return Err(failure.hint("give --against the data set itself"));
        }
        Ok((model, self.set(&against, self.against_split.into(), self.against_limit)?))
    }

    fn set(&self, path: &Path, split: Split, limit: Option<u32>) -> Result<Set, Failure> {
        let source = Source::open_split(path, split).map_err(explain_opening)?;
        let first = source.read(0, self.exif.into()).ok().map(|picture| (picture.width, picture.height));
        let crop = Crop::or_usual(self.crop, self.size);
        let channels = self.channels.map(Channels::count);
        // Generated pictures usually have the size already, and must not be cropped again.
        let transform = if self.size.is_some() && first == self.size {
            Transform { channels, ..Transform::default() }
        } else {
            Transform { crop, size: self.size, channels }
        };
        let options = LoadOptions {
            exif: self.exif.into(),
            transform,
            limit: limit.map(|limit| limit as usize),
            ..LoadOptions::default()
        };
        let progress = Progress::new("decoding", "pictures");
        let dataset = source.load(&options, &|done, total| progress.update(done, total)).map_err(explain)?;
        let pictures = Pictures::of(&dataset, &name(path), split, &transform);
        let made = source.origin().and_then(|origin| Made::deserialize(origin.get("made")?).ok());
        Ok(Set { dataset, pictures, made })
    }
}

/// The last part of a path: whole paths say more about a machine than about a result.
fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
