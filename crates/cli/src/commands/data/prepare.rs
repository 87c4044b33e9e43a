//! `softdiff data prepare`: any data set as one npz of images of one size.

use super::crops::{CropFlags, CropTask};
use super::{ExifFlag, SplitName, explain, explain_opening};
use crate::atomic_file::{self, unwritable};
use crate::diagnostics::{Failure, Outcome};
use crate::output::counted;
use crate::progress::Progress;
use clap::{Args, ValueEnum};
use serde_json::json;
use softdiff::data::{BadLimit, Crop, Dataset, Exif, LoadOptions, OnBad, Skipped, Source, Transform, write_npz};
use softdiff::image::MAX_SIDE;
use softdiff::quote::one_line;
use std::path::{Path, PathBuf};

const EXAMPLE: &str = "\
Example: faces as everybody trains on them, a test part in grey, photographs as they are stored.
  softdiff data prepare img_align_celeba.zip --out celeba64.npz --size 64 --crop celeba
  softdiff data prepare cifar-10-binary.tar.gz --out cifar-test.npz --split test --channels grey
  softdiff data prepare photos/ --out photos64.npz --size 64 --ignore-exif
  softdiff data prepare photos/ --out photos64.npz --size 64 --on-bad skip --on-bad-limit 5%

Example: 170,000 crops of 64 x 64 of photographs of any size, a tenth of the photographs held out for testing.
  softdiff data prepare photos/ --out crops64.npz --crops 64 --count 170000 --held-out 0.1

The result holds images (uint8, n x height x width x channels) and labels if there are any; np.load reads it, and so does
every softdiff command that takes a data set. The same input gives the same bytes.

Crops: photographs whose short side is 800 pixels or more are halved, and each crop is made smaller by a scale from 0.5 to 1 and
turned by 0, 90, 180 or 270 degrees. Which photographs are held out depends on their content alone, so that the parts never
share one. Of ten crops of a photograph at most one may be flat (standard deviation below 4 of 255), such as sky.
Copies of a photograph and photographs that are flat all over are left out. The file holds train_images and test_images.";

/// Decode, crop and resize a data set into one .npz file.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Prepare {
    /// The data set: a file, a folder, embedded:fashion-mnist, or the name of fetched data such as cifar10.
    path: PathBuf,
    /// The npz file to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Resize to this side, or to a width and height such as 64x48 (antialiased bilinear, as Pillow).
    #[arg(long, value_name = "SIDE", value_parser = parse_size)]
    size: Option<(usize, usize)>,
    /// What to keep: none (all), centre, celeba, or a centred part such as 140x140 [default: centre with --size, else none].
    #[arg(long)]
    crop: Option<Crop>,
    /// Convert to grey or RGB [default: as the images are].
    #[arg(long, value_enum)]
    channels: Option<Channels>,
    /// Which part of a set that has several.
    #[arg(long, value_enum, default_value_t, value_name = "PART")]
    split: SplitName,
    /// What to do with an image that cannot be read.
    #[arg(long, value_enum, default_value_t, value_name = "POLICY")]
    on_bad: Policy,
    /// With --on-bad skip, the largest share of images that may be left out, such as 5%.
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = parse_limit)]
    on_bad_limit: BadLimit,
    /// Take only the first N images.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    #[command(flatten)]
    exif: ExifFlag,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    crops: CropFlags,
}

/// Colours, as typed.
#[derive(Clone, Copy, ValueEnum)]
pub(in crate::commands) enum Channels {
    Grey,
    Rgb,
}

impl Channels {
    /// How many there are.
    pub(in crate::commands) fn count(self) -> usize {
        match self {
            Channels::Grey => 1,
            Channels::Rgb => 3,
        }
    }
}

#[derive(Clone, Copy, Default, ValueEnum)]
pub(super) enum Policy {
    /// Stop and name it.
    #[default]
    Fail,
    /// Leave it out and list it; stop if there are more than --on-bad-limit.
    Skip,
}

impl From<Policy> for OnBad {
    fn from(policy: Policy) -> OnBad {
        match policy {
            Policy::Fail => OnBad::Fail,
            Policy::Skip => OnBad::Skip,
        }
    }
}

/// A share as typed: 5% or 0.05.
fn parse_limit(text: &str) -> Result<BadLimit, String> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim_end().parse().map(|percent: f64| percent / 100.0),
        None => text.parse(),
    };
    let share = share.ok().filter(|share| (0.0..=1.0).contains(share));
    share.map(BadLimit).ok_or_else(|| "expected a share such as 5% or 0.05".into())
}

/// A side, or a width and height, as typed.
pub(in crate::commands) fn parse_size(text: &str) -> Result<(usize, usize), String> {
    let (width, height) = text.split_once('x').unwrap_or((text, text));
    match (width.parse(), height.parse()) {
        (Ok(width @ 1..=MAX_SIDE), Ok(height @ 1..=MAX_SIDE)) => Ok((width, height)),
        _ => Err(format!("expected a side from 1 to {MAX_SIDE}, or a width and height such as 64x48")),
    }
}

impl Prepare {
    pub fn run(self, json: bool) -> Outcome {
        // Said before anything is decoded.
        if !self.force && self.out.symlink_metadata().is_ok() {
            let failure = Failure::new(format!("{} exists already", self.out.display()));
            return Err(failure.hint("choose another --out, or add --force to replace it"));
        }
        if self.crops.wanted() {
            let (split, channels) = (self.split.into(), self.channels.map(Channels::count));
            let (path, out, exif) = (&self.path, &self.out, self.exif.into());
            let (on_bad, on_bad_limit) = (self.on_bad, self.on_bad_limit);
            return self.crops.run(&CropTask { path, out, split, channels, exif, on_bad, on_bad_limit }, json);
        }
        let options = self.options();
        let source = Source::open_split(&self.path, self.split.into()).map_err(explain_opening)?;
        let progress = Progress::new("decoding", "images");
        let folder = self.out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let loading = |done, total| progress.update(done, total);
        let dataset = source.load_beside(folder, &options, &loading).map_err(explain)?;
        drop(progress);
        for skipped in dataset.skipped() {
            eprintln!("skipped: {}", one_line(&skipped.to_string()));
        }
        let Transform { crop, size, .. } = options.transform;
        let origin = json!({
            "source": self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy(),
            "crop": crop.to_string(),
            "size": size.map(|(width, height)| [width, height]),
            "exif": options.exif == Exif::Apply,
            "version": env!("CARGO_PKG_VERSION"),
        });
        atomic_file::write(&self.out, |file| write_npz(file, &dataset, &origin))
            .map_err(|error| unwritable(&self.out, &error))?;
        report(&self.out, &dataset, json);
        Ok(())
    }

    fn options(&self) -> LoadOptions {
        let crop = Crop::or_usual(self.crop, self.size);
        let channels = self.channels.map(Channels::count);
        let (on_bad, on_bad_limit) = (self.on_bad.into(), self.on_bad_limit);
        let limit = self.limit.map(|limit| limit as usize);
        let transform = Transform { crop, size: self.size, channels };
        LoadOptions { exif: self.exif.into(), transform, on_bad, on_bad_limit, limit }
    }
}

fn report(out: &Path, dataset: &Dataset, json: bool) {
    let [count, height, width, channels] = [dataset.len(), dataset.height(), dataset.width(), dataset.channels()];
    let hash = dataset.hash().to_string();
    if json {
        let statistics = dataset.statistics();
        let skipped: Vec<_> = dataset
            .skipped()
            .iter()
            .map(|Skipped { file, reason }| json!({ "file": file, "reason": reason }))
            .collect();
        let facts = json!({
            "out": out.display().to_string(),
            "pictures": count,
            "height": height,
            "width": width,
            "channels": channels,
            "labelled": dataset.labels().is_some(),
            "classes": dataset.classes(),
            "mean": statistics.iter().map(|channel| channel.mean).collect::<Vec<_>>(),
            "std": statistics.iter().map(|channel| channel.std).collect::<Vec<_>>(),
            "hash": hash,
            "skipped": skipped,
        });
        println!("{facts}");
    } else {
        let skipped = dataset.skipped().len();
        let skipped = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
        let images = counted(count, "image");
        eprintln!("wrote {}: {images} of {width} x {height} x {channels}, {hash}{skipped}", out.display());
    }
}
