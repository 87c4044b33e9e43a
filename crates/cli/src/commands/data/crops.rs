//! `softdiff data prepare --crops`: many small squares of photographs.

use super::prepare::Policy;
use super::{explain, explain_opening};
use crate::atomic_file::{self, unwritable};
use crate::diagnostics::{Failure, Outcome};
use crate::progress::{Progress, clock};
use clap::Args;
use serde_json::{Value, json};
use softdiff::data::{
    BadLimit, CropOptions, CropPlan, DataError, Exif, FileError, MAX_PICTURES, PlannedPhotograph, Skipped, Source,
    Split, WrittenCrops,
};
use softdiff::quote::one_line;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Instant;

/// What is said about crops.
#[derive(Args)]
#[command(next_help_heading = "Crops of photographs")]
pub struct CropFlags {
    /// Cut squares of this side from photographs of any size, at random places, scales and quarter turns.
    #[arg(long, value_name = "SIDE", value_parser = clap::value_parser!(u32).range(8..=1024), conflicts_with_all = ["size", "crop", "limit"])]
    crops: Option<u32>,
    /// Crops in all, shared out by the photographs' areas that are not flat [default: 1000 a photograph].
    #[arg(long, value_name = "N", requires = "crops", value_parser = clap::value_parser!(u64).range(1..=MAX_PICTURES))]
    count: Option<u64>,
    /// The most crops of one photograph [default: twice the mean].
    #[arg(long, value_name = "N", requires = "crops", value_parser = clap::value_parser!(u64).range(1..=MAX_PICTURES))]
    cap: Option<u64>,
    /// The share of photographs that become the test part, with all their crops; at least one if above 0.
    #[arg(long, value_name = "SHARE", requires = "crops", default_value_t = 0.1, value_parser = parse_share)]
    held_out: f64,
    /// What places, scales and turns are drawn from.
    #[arg(long, value_name = "SEED", requires = "crops", default_value_t = 0)]
    seed: u64,
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0 to below 1, such as 0.1".into())
}

/// What `prepare` is told beside them.
pub struct CropTask<'a> {
    pub path: &'a Path,
    pub out: &'a Path,
    pub split: Split,
    pub channels: Option<usize>,
    pub exif: Exif,
    pub on_bad: Policy,
    pub on_bad_limit: BadLimit,
}

impl CropFlags {
    /// Whether crops are asked for.
    pub fn wanted(&self) -> bool {
        self.crops.is_some()
    }

    fn options(&self, task: &CropTask) -> CropOptions {
        CropOptions {
            side: self.crops.expect("crops are asked for") as usize,
            count: self.count.map(|count| count as usize),
            cap: self.cap.map(|cap| cap as usize),
            held_out: self.held_out,
            seed: self.seed,
            channels: task.channels,
            exif: task.exif,
            on_bad: task.on_bad.into(),
            on_bad_limit: task.on_bad_limit,
        }
    }

    /// Cuts the crops and writes them.
    pub fn run(&self, task: &CropTask, json: bool) -> Outcome {
        let began = Instant::now();
        let options = self.options(task);
        let source = Source::open_split(task.path, task.split).map_err(explain_opening)?;
        let progress = Progress::new("looking", "photographs");
        let plan = source.plan_crops(&options, &|done, total| progress.update(done, total)).map_err(refused)?;
        drop(progress);
        for skipped in plan.skipped().iter().chain(plan.passed_over()) {
            eprintln!("skipped: {}", one_line(&skipped.to_string()));
        }
        let origin = json!({
            "source": task.path.file_name().unwrap_or(task.path.as_os_str()).to_string_lossy(),
            "photographs": plan.photographs().len(),
            "crops": options.side,
            "seed": options.seed,
            "held_out": options.held_out,
            "exif": options.exif == Exif::Apply,
            "version": env!("CARGO_PKG_VERSION"),
        });
        let progress = Progress::new("cutting", "crops");
        let mut written = WrittenCrops::default();
        let result = atomic_file::write(task.out, |file| {
            written = plan.write(file, &origin, &|done, total| progress.update(done, total))?;
            Ok(())
        });
        result.map_err(|error| match error.kind() {
            // Of a photograph, and not of the disk.
            ErrorKind::Other => Failure::new(error).hint("check the photographs, and run it again"),
            _ => unwritable(task.out, &error),
        })?;
        drop(progress);
        report(task.out, &plan, &written, began, json);
        Ok(())
    }
}

/// The remedies that differ from those without `--crops`.
fn refused(error: DataError) -> Failure {
    let hint = match &error {
        DataError::File { reason, .. } if matches!(**reason, FileError::Crop { .. }) => {
            "give a smaller --crops, or add --on-bad skip to leave small photographs out"
        }
        DataError::TooManyCrops { .. } => "give a larger --cap, a smaller --count, or more photographs",
        DataError::TooFewCrops { .. } => "give a larger --count",
        DataError::OnePhotograph { .. } => "give more photographs, or --held-out 0",
        _ => return explain(error),
    };
    Failure::new(error).hint(hint)
}

fn report(out: &Path, plan: &CropPlan, written: &WrittenCrops, began: Instant, json: bool) {
    let photographs = plan.photographs();
    let held_out = photographs.iter().filter(|photograph| photograph.held_out).count();
    let megapixels = photographs.iter().map(|one| (one.width * one.height) as f64).sum::<f64>() / 1e6;
    let bytes = std::fs::metadata(out).map_or(0, |metadata| metadata.len());
    let hash = written.hash.map(|hash| hash.to_string());
    let WrittenCrops { train, test, side, channels, flat, .. } = *written;
    if json {
        let one = |photograph: &PlannedPhotograph| {
            let PlannedPhotograph { file, content, width, height, crops, held_out, .. } = photograph;
            json!({
                "file": file, "hash": content.to_string(), "width": width, "height": height, "crops": crops, "held_out": held_out,
            })
        };
        let left_out = |list: &[Skipped]| -> Vec<Value> {
            list.iter().map(|Skipped { file, reason }| json!({ "file": file, "reason": reason })).collect()
        };
        let facts = json!({
            "out": out.display().to_string(),
            "train": train,
            "test": test,
            "side": side,
            "channels": channels,
            "flat": flat,
            "megapixels": megapixels,
            "bytes": bytes,
            "hash": hash,
            "photographs": photographs.iter().map(one).collect::<Vec<_>>(),
            "skipped": left_out(plan.skipped()),
            "passed_over": left_out(plan.passed_over()),
        });
        println!("{facts}");
        return;
    }
    let hash = hash.unwrap_or_else(|| "no training part".into());
    eprintln!(
        "wrote {}: {train} training and {test} test crops of {side} x {side} x {channels}, {hash}",
        out.display()
    );
    let count = photographs.len();
    eprintln!(
        "{count} photographs ({held_out} held out), {megapixels:.1} megapixels; {flat} crops are flat; {:.1} MB in {}",
        bytes as f64 / 1e6,
        clock(began.elapsed())
    );
}
