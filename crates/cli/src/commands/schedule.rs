//! `softdiff schedule`: the paper's scheduler on images of one's own (Soft Diffusion, section 3.3).

use super::corruption::CorruptionFlags;
use super::images;
use crate::atomic_file::save;
use crate::diagnostics::Outcome;
use crate::progress::Progress;
use clap::{Args, ValueEnum};
use softdiff::corruption::Shape;
use softdiff::curve::Interpolation;
use softdiff::noise::{PAPER_LARGEST, PAPER_SMALLEST};
use softdiff::recipe::{MATCHED_KNOTS, score_sde_largest};
use softdiff::schedule::{
    Method, Request, Schedule, Timing, TransportMetric, VarianceExploding, plan, usual_candidates,
};
use std::path::PathBuf;

/// Choose the corruption levels of a diffusion from images: the shortest path through candidate levels.
#[derive(Args)]
#[command(after_help = "\
Example: the paper's schedule for CIFAR-10, 32 of 256 blur levels

    softdiff schedule cifar10 --out schedule.json

Then look at it

    softdiff corrupt cifar10 --schedule schedule.json

Example: blur and noise chosen together

    softdiff schedule cifar10 --method joint --out joint.json")]
pub struct ScheduleArguments {
    /// Any data source: a folder, archive or file of images, CIFAR-10, IDX, npz, Parquet, embedded:fashion-mnist, cifar10.
    #[arg(value_name = "DATA")]
    data: PathBuf,
    /// Read the first so many images of it.
    #[arg(long, default_value_t = 10_000, value_name = "COUNT")]
    pool: usize,
    #[command(flatten)]
    corruption: CorruptionFlags,
    /// Images to measure, drawn at random.
    #[arg(long, default_value_t = 1024)]
    images: usize,
    /// Candidate levels.
    #[arg(long, default_value_t = 256)]
    candidates: usize,
    /// Levels to choose [default: 32; mse-matched 256].
    #[arg(long)]
    knots: Option<usize>,
    /// The distance between corrupted images.
    #[arg(long, value_enum, default_value_t = MetricName::Paired)]
    metric: MetricName,
    /// Entropy of the Sinkhorn metrics, in units of squared pixel distances.
    #[arg(long, default_value_t = 20.0)]
    entropy: f64,
    /// Directions of the sliced metric.
    #[arg(long, default_value_t = 256)]
    directions: usize,
    /// Bandwidth of the MMD.
    #[arg(long, default_value_t = 15.0)]
    bandwidth: f64,
    /// How to choose.
    #[arg(long, value_enum, default_value_t = MethodName::ShortestPath)]
    method: MethodName,
    /// Largest noise of the diffusion whose pace `--method mse-matched` copies [default: score_sde's, 50, or 90 from 64x64 on].
    #[arg(long)]
    pace: Option<f64>,
    /// Noise levels that `--method joint` chooses from, at equal ratios from 0.01 to 0.1.
    #[arg(long, default_value_t = 24, value_name = "COUNT")]
    noise_levels: usize,
    /// How levels run between knots.
    #[arg(long, value_enum, default_value_t = InterpolationName::Linear)]
    interpolation: InterpolationName,
    /// Seed of the choice of images.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Choices of images over which the knots' spread is reported.
    #[arg(long, default_value_t = 5)]
    resamplings: usize,
    /// The file to write.
    #[arg(long, default_value = "schedule.json", value_name = "FILE")]
    out: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum MetricName {
    Paired,
    Exact,
    Sinkhorn,
    Divergence,
    Sliced,
    Bures,
    Mmd,
}

#[derive(Clone, Copy, ValueEnum)]
enum MethodName {
    ShortestPath,
    EqualArcLength,
    MseMatched,
    Joint,
}

#[derive(Clone, Copy, ValueEnum)]
enum InterpolationName {
    Linear,
    MonotoneCubic,
}
pub fn run(arguments: ScheduleArguments, json: bool) -> Outcome {
    let pictures = images::load(&arguments.data, arguments.pool)?;
    let corruption = arguments.corruption.build(pictures.shape, arguments.seed)?;
    let request = Request {
        source: pictures.source,
        candidates: usual_candidates(&*corruption, arguments.candidates)?,
        knots: arguments.knots.unwrap_or(match arguments.method {
            MethodName::MseMatched => MATCHED_KNOTS,
            _ => 32,
        }),
        metric: metric(&arguments),
        method: method(&arguments, pictures.shape),
        timing: Timing::PAPER,
        interpolation: match arguments.interpolation {
            InterpolationName::Linear => Interpolation::Linear,
            InterpolationName::MonotoneCubic => Interpolation::MonotoneCubic,
        },
        images: arguments.images,
        seed: arguments.seed,
        resamplings: arguments.resamplings,
    };
    let progress = Progress::new("measuring", "distances");
    let schedule = plan(&*corruption, &pictures.pixels, &request, &|done, total| progress.update(done, total))?;
    drop(progress);
    save(&arguments.out, schedule.to_json().as_bytes())?;
    if json {
        print!("{}", schedule.to_json());
    } else {
        if schedule.unconverged > 0 {
            eprintln!("warning: {} distances did not converge; give a larger --entropy", schedule.unconverged);
        }
        show(&schedule);
        eprintln!("wrote {} ({})", arguments.out.display(), schedule.hash());
    }
    Ok(())
}

fn metric(arguments: &ScheduleArguments) -> TransportMetric {
    let ScheduleArguments { entropy, directions, bandwidth, seed, .. } = *arguments;
    match arguments.metric {
        MetricName::Paired => TransportMetric::Paired,
        MetricName::Exact => TransportMetric::Exact,
        MetricName::Sinkhorn => TransportMetric::Sinkhorn { entropy },
        MetricName::Divergence => TransportMetric::SinkhornDivergence { entropy },
        MetricName::Sliced => TransportMetric::Sliced { directions, seed },
        MetricName::Bures => TransportMetric::Bures,
        MetricName::Mmd => TransportMetric::Mmd { bandwidth },
    }
}

fn method(arguments: &ScheduleArguments, shape: Shape) -> Method {
    match arguments.method {
        MethodName::ShortestPath => Method::ShortestPath { max_hop: 0.0 },
        MethodName::EqualArcLength => Method::EqualArcLength,
        MethodName::Joint => Method::Joint {
            max_hop: 0.0,
            smallest: PAPER_SMALLEST,
            largest: PAPER_LARGEST,
            noise_levels: arguments.noise_levels,
        },
        MethodName::MseMatched => {
            let pace = VarianceExploding {
                smallest: PAPER_SMALLEST,
                largest: arguments.pace.unwrap_or(score_sde_largest(Some(shape.height.max(shape.width)))),
            };
            Method::MseMatched { pace, sigma: PAPER_LARGEST }
        }
    }
}

fn show(schedule: &Schedule) {
    let noise = if schedule.sigmas.is_some() { format!(" {:>8}", "sigma") } else { String::new() };
    println!("{:>4} {:>9}{noise} {:>9} {:>12} {:>9}", "knot", "level", "hop", "equal arcs", "spread");
    for (knot, level) in schedule.knots.iter().enumerate() {
        let hop = knot.checked_sub(1).map_or(String::new(), |before| format!("{:.4}", schedule.hops[before]));
        let spread = schedule.spread.as_ref().map_or(String::new(), |spread| format!("{:.4}", spread.deviation[knot]));
        let noise = schedule.sigmas.as_ref().map_or(String::new(), |sigmas| format!(" {:>8.4}", sigmas[knot]));
        println!("{knot:>4} {level:>9.4}{noise} {hop:>9} {:>12.4} {spread:>9}", schedule.equal_arc_length[knot]);
    }
    match schedule.method {
        Method::ShortestPath { max_hop } | Method::Joint { max_hop, .. } => {
            println!("path cost {:.4}, max_hop {max_hop:.4}", schedule.path_cost)
        }
        _ => println!("path cost {:.4}", schedule.path_cost),
    }
}
