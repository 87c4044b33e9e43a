//! `softdiff corrupt`: strips of an image along its path (Soft Diffusion, Figure 1, top rows).

use super::corruption::CorruptionFlags;
use super::images;
use super::steps::steps;
use crate::atomic_file::save;
use crate::diagnostics::{Failure, Outcome};
use clap::Args;
use softdiff::corruption::{Corruption, Shape};
use softdiff::curve::Interpolation;
use softdiff::engine::rng::RandomStream;
use softdiff::image::{from_unit, grid, to_unit};
use softdiff::path::{LevelSchedule, Path as DiffusionPath};
use softdiff::schedule::{Schedule, Timing, usual_candidates};
use std::path::PathBuf;

/// Knots of the path when no schedule is given.
const KNOTS: usize = 32;

/// Show an image along its way to full corruption, as a PNG: without noise above, with noise below.
///
/// The path is the paper's: noise grows in the first 18 % of the time, then the corruption. Without a schedule its levels
/// are evenly spaced in their logarithm (blur) or evenly (masks).
#[derive(Args)]
#[command(after_help = "\
Example: the first test image of CIFAR-10 on its way to the paper's last blur

    softdiff corrupt cifar10 --index 0 --out strip.png

Example: blur in the first part of the way, masking pixel by pixel in the last

    softdiff corrupt cifar10 --corruption blur@0-0.7+masking@0.3-1 --order spiral --largest 3")]
pub struct CorruptArguments {
    /// Any data source: a folder, archive or file of images, CIFAR-10, IDX, npz, Parquet, embedded:fashion-mnist, cifar10.
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// Which image of it.
    #[arg(long, default_value_t = 0, value_name = "N")]
    index: usize,
    #[command(flatten)]
    corruption: CorruptionFlags,
    /// A schedule.json whose knots to follow.
    #[arg(long, value_name = "FILE")]
    schedule: Option<PathBuf>,
    /// How many times to show, from 0 to 1.
    #[arg(long, default_value_t = 10, value_name = "COUNT", value_parser = steps())]
    steps: usize,
    /// How large to draw a pixel.
    #[arg(long, default_value_t = 3)]
    zoom: usize,
    /// Seed of the noise, and of random orders.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The PNG to write.
    #[arg(long, default_value = "strip.png", value_name = "FILE")]
    out: PathBuf,
}

#[derive(serde::Serialize)]
struct StripStep {
    t: f64,
    level: f64,
    sigma: f64,
}
pub fn run(arguments: CorruptArguments, json: bool) -> Outcome {
    if arguments.steps < 2 {
        return Err(Failure::new(format!("{} steps show no way", arguments.steps)).hint("give --steps 2 or more"));
    }
    let picture = images::one(&arguments.data, arguments.index)?;
    let shape = Shape::new(picture.height, picture.width, picture.channels);
    let image = to_unit(&picture.pixels);
    let corruption = arguments.corruption.build(shape, arguments.seed)?;
    let path = path(corruption, arguments.schedule.as_deref())?;
    let eta = RandomStream::new(arguments.seed, "noise of a strip").normals(image.len());
    let (mut clean, mut noisy, mut shown) = (Vec::new(), Vec::new(), Vec::new());
    for step in 0..arguments.steps {
        let t = step as f64 / (arguments.steps - 1) as f64;
        let moment = path.at(t)?;
        clean.extend(from_unit(&moment.map.apply(shape, &image)?));
        noisy.extend(from_unit(&path.diffuse(&image, t, &eta)?));
        shown.push(StripStep { t, level: path.level(t)?, sigma: moment.sigma });
    }
    clean.extend(noisy);
    let strip = grid::compose(shape.width, shape.height, shape.channels, &clean, arguments.steps, arguments.zoom);
    let png = strip.to_png();
    save(&arguments.out, &png)?;
    if json {
        println!("{}", serde_json::json!({ "out": arguments.out.display().to_string(), "shown": shown }));
    } else {
        println!("{:>6} {:>9} {:>7}", "t", "level", "sigma");
        for StripStep { t, level, sigma } in &shown {
            println!("{t:>6.3} {level:>9.4} {sigma:>7.4}");
        }
        eprintln!("wrote {}", arguments.out.display());
    }
    Ok(())
}

fn path(corruption: Box<dyn Corruption>, schedule: Option<&std::path::Path>) -> Result<DiffusionPath, Failure> {
    let Some(file) = schedule else {
        let knots = usual_candidates(&*corruption, KNOTS)?;
        return Ok(DiffusionPath::two_stage(corruption, knots, Interpolation::Linear)?);
    };
    let schedule = Schedule::read(file)?;
    if !schedule.is_for(&*corruption) {
        let made = format!("{} was made for {}", file.display(), schedule.corruption);
        return Err(Failure::new(format!("{made}, not for {}", corruption.describe()))
            .hint("give the flags it was made with, or no schedule"));
    }
    let Timing { noise, start } = schedule.timing(Timing::PAPER)?;
    let level = LevelSchedule::Curve { curve: schedule.curve()?, start };
    Ok(DiffusionPath::new(vec![(corruption, level)], noise)?)
}
