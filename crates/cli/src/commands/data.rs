//! `softdiff data`: fetch a data set, look at it, or make one ready for training.

mod crops;
mod fetch;
mod inspect;
mod prepare;

use crate::diagnostics::{Failure, Outcome};
use clap::{Args, Subcommand, ValueEnum};
pub(super) use prepare::{Channels, parse_size};
use softdiff::data::{DataError, Exif, FileError, Split};
use softdiff::hint::Hint;

const EXAMPLE: &str = "\
Example: fetch CIFAR-10, which every command then knows by that name.
  softdiff data fetch cifar10
  softdiff data inspect cifar10 --grid cifar10.png

Example: look at a folder of faces, then make 64 x 64 images of them.
  softdiff data inspect celeba.zip --grid celeba.png
  softdiff data prepare celeba.zip --out celeba64.npz --size 64 --crop celeba

What can be read: a folder of images (any depth), a zip, tar or tar.gz of one, CIFAR-10 binary (folder or tar.gz), IDX (the
MNIST family), .npy, .npz, Parquet with image bytes (a file or a folder of them), embedded:fashion-mnist, and the names that
softdiff data fetch list shows, such as cifar10.
Images may be PNG, JPEG, WebP, GIF, TIFF, BMP, PGM or PPM. Folders are classes; folders named train and test are parts.";

/// Fetch a data set, look at it, or make one ready for training.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct DataCommand {
    #[command(subcommand)]
    verb: DataVerb,
}

#[derive(Subcommand)]
enum DataVerb {
    Fetch(fetch::Fetch),
    Inspect(inspect::Inspect),
    Prepare(prepare::Prepare),
}

impl DataCommand {
    pub fn run(self, json: bool) -> Outcome {
        match self.verb {
            DataVerb::Fetch(fetch) => fetch.run(json),
            DataVerb::Inspect(inspect) => inspect.run(json),
            DataVerb::Prepare(prepare) => prepare.run(json),
        }
    }

    /// Whether the same command goes on where it was stopped.
    pub fn continues(&self) -> bool {
        matches!(self.verb, DataVerb::Fetch(_))
    }
}

/// Which part of a data set, as typed.
#[derive(Clone, Copy, Default, ValueEnum)]
pub(super) enum SplitName {
    /// The training part, or everything where there are no parts.
    #[default]
    Train,
    /// The test part.
    Test,
    /// Everything.
    All,
}

impl From<SplitName> for Split {
    fn from(part: SplitName) -> Split {
        match part {
            SplitName::Train => Split::Train,
            SplitName::Test => Split::Test,
            SplitName::All => Split::All,
        }
    }
}

/// What is done with the EXIF orientation.
#[derive(Args, Clone, Copy)]
pub(super) struct ExifFlag {
    /// Take images as they are stored; without it they are turned upright as their EXIF orientation says.
    #[arg(long)]
    ignore_exif: bool,
}

impl From<ExifFlag> for Exif {
    fn from(flag: ExifFlag) -> Exif {
        if flag.ignore_exif { Exif::Ignore } else { Exif::Apply }
    }
}

/// The remedy when a source as a whole is refused.
pub(super) fn explain_opening(error: DataError) -> Failure {
    let whole = |reason: &FileError| {
        matches!(
            reason,
            FileError::Bytes(_) | FileError::Archive(_) | FileError::Damaged { .. } | FileError::TooLarge { .. }
        )
    };
    match &error {
        DataError::File { reason, .. } if whole(reason) && error.hint().is_none() => {
            Failure::new(error).hint("the file is damaged or not completely downloaded: fetch it again")
        }
        _ => explain(error),
    }
}

/// The remedy for each kind of refusal.
pub(super) fn explain(error: DataError) -> Failure {
    if error.hint().is_some() {
        return Failure::new(error);
    }
    let hint = match &error {
        DataError::Io { .. } => "check the path and its permissions",
        DataError::Unknown { found, .. } if found.contains("image") => "give the folder that holds the images",
        DataError::Unknown { .. } | DataError::Empty { .. } => "softdiff data --help lists what can be read",
        DataError::UnknownEmbedded { .. } => "there is one: embedded:fashion-mnist",
        DataError::NoSplit { .. } => "leave --split out, or give --split all",
        DataError::Sizes { .. } => "give --size, and --crop if the images should keep their proportions",
        DataError::MixedColours { .. } => "give --channels rgb or --channels grey",
        DataError::TooManySkipped { .. } => {
            "check that the download is complete, remove the bad files, or allow more: --on-bad-limit 5% (data.on_bad_limit in a recipe)"
        }
        DataError::TooLarge { .. } => "give a smaller --size or a --limit",
        DataError::File { reason, .. } => match **reason {
            FileError::Crop { .. } => "choose a --crop that fits; celeba is for images of 178 x 218 or 89 x 109",
            FileError::Io(_) => "check the file and its permissions",
            FileError::NotABrightness { .. } => "scale the array to 0 to 1, or save it as uint8",
            FileError::Unsupported { .. } => "change the file as the message says",
            _ => "fetch or remove the file, or add --on-bad skip to leave bad images out",
        },
        _ => "softdiff data --help lists what can be read",
    };
    Failure::new(error).hint(hint)
}
