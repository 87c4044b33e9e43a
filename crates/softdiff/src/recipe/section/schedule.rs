//! `[schedule]`: which levels the corruption passes through.

use super::path::score_sde_largest;
use crate::curve::Interpolation;
use crate::recipe::reader::{Range, Reader};
use crate::recipe::writer::Writer;
use crate::schedule::Metric;

const BETWEEN: [(&str, Interpolation); 2] =
    [("linear", Interpolation::Linear), ("monotone-cubic", Interpolation::MonotoneCubic)];

/// Levels matched to errors fall on a few of 32 knots only, near t = 1 where nearly all of the error is made.
pub const MATCHED_KNOTS: usize = 256;

/// How the knots of a path come about.
#[derive(Clone, Debug, PartialEq)]
pub enum KnotMethod {
    /// The paper's scheduler.
    ShortestPath,
    /// Equal distances along all candidates.
    EqualArcLength,
    /// The paper's baseline, at the pace of a VE diffusion up to this noise.
    MseMatched {
        /// The largest noise of that diffusion.
        pace: f64,
    },
    /// Levels and noise together, as one shortest path on a grid of both.
    Joint {
        /// Noise levels to choose from.
        noise_levels: usize,
    },
    /// Straight from clean to full.
    Straight,
    /// Evenly spread as the corruption asks: in the logarithm for blurs, else straight.
    Even,
    /// From a schedule.json.
    File {
        /// Where it is.
        file: String,
    },
}

/// `[schedule]`; only for paths with a corruption.
///
/// | key | of method | default | meaning |
/// |---|---|---|---|
/// | `method` | | `"shortest-path"` | `"shortest-path"`, `"equal-arc-length"`, `"mse-matched"`, `"joint"`, `"straight"`, `"even"`, `"file"` |
/// | `file` | file | required | a schedule.json |
/// | `pace` | mse-matched | `50`, or `90` where `data.size` is 64 or more | largest noise of the diffusion whose pace is copied |
/// | `noise_levels` | joint | `24` | noise to choose from, at equal ratios from `path.smallest` to `path.largest`; levels and noise then share knots at equal times from 0 to 1, and `path.noise_stage` or `path.start` have no effect |
/// | `knots` | all but straight and file | `32`; mse-matched `256` | levels to choose |
/// | `candidates` | those measured | `256` | levels to choose from |
/// | `images` | those measured | `1024` | images to measure |
/// | `resamplings` | those measured | `1` | choices of images over which the spread is reported |
/// | `metric` | those measured but joint | `"paired"` | of hops; mse-matched always matches paired errors: `"paired"`, `"exact"`, `"sinkhorn"`, `"divergence"`, `"sliced"`, `"bures"`, `"mmd"` |
/// | `entropy` | sinkhorn, divergence | `20` | in squared pixel distances |
/// | `directions` | sliced | `256` | |
/// | `bandwidth` | mmd | `15` | |
/// | `interpolation` | all but file | `"linear"` | `"linear"` or `"monotone-cubic"` |
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct ScheduleSection {
    pub method: KnotMethod,
    pub knots: usize,
    pub candidates: usize,
    pub images: usize,
    pub resamplings: usize,
    pub metric: Metric,
    pub interpolation: Interpolation,
}

impl Default for ScheduleSection {
    /// The paper's: 32 of 256 by the shortest path.
    fn default() -> Self {
        ScheduleSection {
            method: KnotMethod::ShortestPath,
            knots: 32,
            candidates: 256,
            images: 1024,
            resamplings: 1,
            metric: Metric::Paired,
            interpolation: Interpolation::Linear,
        }
    }
}

impl ScheduleSection {
    /// The names of all methods.
    pub const METHODS: [&str; 7] =
        ["shortest-path", "equal-arc-length", "mse-matched", "joint", "straight", "even", "file"];

    /// Its method.
    pub fn method_name(&self) -> &'static str {
        match self.method {
            KnotMethod::ShortestPath => "shortest-path",
            KnotMethod::EqualArcLength => "equal-arc-length",
            KnotMethod::MseMatched { .. } => "mse-matched",
            KnotMethod::Joint { .. } => "joint",
            KnotMethod::Straight => "straight",
            KnotMethod::Even => "even",
            KnotMethod::File { .. } => "file",
        }
    }

    /// Whether images have to be measured.
    pub fn measures(&self) -> bool {
        !matches!(self.method, KnotMethod::Straight | KnotMethod::Even | KnotMethod::File { .. })
    }

    pub(in crate::recipe) fn read(r: &Reader, seed: u64, side: Option<usize>) -> Self {
        let mut section = ScheduleSection::default();
        let methods = Self::METHODS.map(|method| (method, method));
        let name = r.choice("method", &methods).unwrap_or("shortest-path");
        section.method = match name {
            "equal-arc-length" => KnotMethod::EqualArcLength,
            "mse-matched" => {
                KnotMethod::MseMatched { pace: r.number("pace", Range::Positive).unwrap_or(score_sde_largest(side)) }
            }
            "joint" => KnotMethod::Joint { noise_levels: r.size("noise_levels", 2..=256).unwrap_or(24) },
            "straight" => KnotMethod::Straight,
            "even" => KnotMethod::Even,
            "file" => KnotMethod::File { file: r.required("file", "name a schedule.json made by softdiff schedule") },
            _ => KnotMethod::ShortestPath,
        };
        let matched = matches!(section.method, KnotMethod::MseMatched { .. });
        if matched {
            section.knots = MATCHED_KNOTS;
        }
        if section.measures() || section.method == KnotMethod::Even {
            section.knots = r.size("knots", 3..=4096).unwrap_or(section.knots);
        }
        if section.measures() {
            section.candidates = r.size("candidates", 3..=4096).unwrap_or(section.candidates.max(if matched {
                0
            } else {
                section.knots
            }));
            section.images = r.size("images", 1..=1_000_000).unwrap_or(section.images);
            section.resamplings = r.size("resamplings", 1..=100).unwrap_or(section.resamplings);
            let joint = matches!(section.method, KnotMethod::Joint { .. });
            if !joint {
                section.metric = read_metric(r, seed);
            }
            if section.knots > section.candidates && !matched && !joint {
                let message = format!("{} knots cannot be chosen from {}", section.knots, section.candidates);
                let key = if r.has("candidates") { "candidates" } else { "knots" };
                r.problem(key, message, "give at least as many candidates as knots");
            }
        }
        if !matches!(section.method, KnotMethod::File { .. }) {
            section.interpolation = r.choice("interpolation", &BETWEEN).unwrap_or_default();
        }
        let measured = "a method that measures images: shortest-path, equal-arc-length, mse-matched or joint";
        let by_metric = "a method that has a metric: shortest-path, equal-arc-length or mse-matched";
        r.refuse(
            &format!("method \"{name}\""),
            &[
                ("file", "method file"),
                ("pace", "method mse-matched"),
                ("noise_levels", "method joint"),
                ("knots", "a method that chooses levels: shortest-path, equal-arc-length, mse-matched, joint or even"),
                ("candidates", measured),
                ("images", measured),
                ("resamplings", measured),
                ("metric", by_metric),
                ("entropy", by_metric),
                ("directions", by_metric),
                ("bandwidth", by_metric),
                ("interpolation", "a method other than file, which brings its own"),
            ],
        );
        r.finish();
        section
    }

    pub(in crate::recipe) fn write(&self, w: &mut Writer) {
        w.section("schedule");
        w.value("method", self.method_name());
        match &self.method {
            KnotMethod::File { file } => return w.value("file", file),
            KnotMethod::MseMatched { pace } => w.value("pace", pace),
            KnotMethod::Joint { noise_levels } => w.value("noise_levels", noise_levels),
            _ => {}
        }
        if self.method != KnotMethod::Straight {
            w.value("knots", &self.knots);
        }
        if self.measures() {
            w.value("candidates", &self.candidates);
            w.value("images", &self.images);
            w.value("resamplings", &self.resamplings);
            match &self.metric {
                _ if matches!(self.method, KnotMethod::Joint { .. }) => {}
                Metric::Paired => w.value("metric", "paired"),
                Metric::Exact => w.value("metric", "exact"),
                Metric::Bures => w.value("metric", "bures"),
                Metric::Sinkhorn { entropy } => {
                    w.value("metric", "sinkhorn");
                    w.value("entropy", entropy);
                }
                Metric::SinkhornDivergence { entropy } => {
                    w.value("metric", "divergence");
                    w.value("entropy", entropy);
                }
                Metric::Sliced { directions, .. } => {
                    w.value("metric", "sliced");
                    w.value("directions", directions);
                }
                Metric::Mmd { bandwidth } => {
                    w.value("metric", "mmd");
                    w.value("bandwidth", bandwidth);
                }
            }
        }
        w.word("interpolation", &BETWEEN, &self.interpolation);
    }
}

/// The metric; directions are drawn from the recipe's seed.
fn read_metric(r: &Reader, seed: u64) -> Metric {
    let names = ["paired", "exact", "sinkhorn", "divergence", "sliced", "bures", "mmd"];
    let name = r.choice("metric", &names.map(|name| (name, name))).unwrap_or("paired");
    let entropy = || r.number("entropy", Range::Positive).unwrap_or(20.0);
    let metric = match name {
        "exact" => Metric::Exact,
        "sinkhorn" => Metric::Sinkhorn { entropy: entropy() },
        "divergence" => Metric::SinkhornDivergence { entropy: entropy() },
        "sliced" => Metric::Sliced { directions: r.size("directions", 1..=1_000_000).unwrap_or(256), seed },
        "bures" => Metric::Bures,
        "mmd" => Metric::Mmd { bandwidth: r.number("bandwidth", Range::Positive).unwrap_or(15.0) },
        _ => Metric::Paired,
    };
    r.refuse(
        &format!("metric \"{name}\""),
        &[("entropy", "metric sinkhorn or divergence"), ("directions", "metric sliced"), ("bandwidth", "metric mmd")],
    );
    metric
}
