//! `[schedule]`: which levels the corruption passes through.

use super::path::score_sde_largest;
use crate::curve::Interpolation;
use crate::recipe::keys::{RecipeKey, Size, Word, section};
use crate::recipe::reader::{Range, Reader, either};
use crate::recipe::writer::{ToToml, TomlWriter};
use crate::schedule::TransportMetric;

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

section! {
    /// `[schedule]`; only for paths with a corruption.
    pub struct ScheduleSection in "schedule" () {
        method: KnotMethod = KnotMethod::ShortestPath, MethodKey, "how the knots come about: mse-matched has pace, the largest noise of the diffusion whose pace is copied; joint has noise_levels (24) to choose from, at equal ratios from path.smallest to path.largest, and chooses the noise too; file has file, a schedule.json";
        knots: usize = 32, Size(3..=4096), "levels to choose; of mse-matched 256 by default";
        candidates: usize = 256, Size(3..=4096), "levels to choose from, of methods that measure images";
        images: usize = 1024, Size(1..=1_000_000), "images to measure";
        resamplings: usize = 1, Size(1..=100), "choices of images over which the spread is reported";
        metric: TransportMetric = TransportMetric::Paired, MetricKey, "distance of hops, of methods that measure images but joint; mse-matched always matches paired errors. sinkhorn and divergence have entropy (20, in squared pixel distances), sliced has directions (256), mmd has bandwidth (15)";
        interpolation: Interpolation = Interpolation::Linear, Word(&BETWEEN), "between the knots";
    }
}

impl Default for ScheduleSection {
    /// The paper's: 32 of 256 by the shortest path.
    fn default() -> Self {
        Self::defaults()
    }
}

const METHODS: [&str; 7] = ["shortest-path", "equal-arc-length", "mse-matched", "joint", "straight", "even", "file"];
const MEASURED: &str = "a method that measures images: shortest-path, equal-arc-length, mse-matched or joint";
const BY_METRIC: &str = "a method that has a metric: shortest-path, equal-arc-length or mse-matched";
/// The keys that not all methods have, and which have them.
const OWNERS: [(&str, &str); 9] = [
    ("knots", "a method that chooses levels: shortest-path, equal-arc-length, mse-matched, joint or even"),
    ("candidates", MEASURED),
    ("images", MEASURED),
    ("resamplings", MEASURED),
    ("metric", BY_METRIC),
    ("entropy", BY_METRIC),
    ("directions", BY_METRIC),
    ("bandwidth", BY_METRIC),
    ("interpolation", "a method other than file, which brings its own"),
];

/// The keys of [`OWNERS`] that a method does not have.
fn without(method: &str) -> &'static [(&'static str, &'static str)] {
    match method {
        "joint" => &OWNERS[4..8],
        "straight" => &OWNERS[..8],
        "even" => &OWNERS[1..8],
        "file" => &OWNERS,
        _ => &[],
    }
}

/// `method` with what belongs to it.
struct MethodKey;

impl RecipeKey<KnotMethod> for MethodKey {
    fn read(&self, r: &Reader, key: &'static str, _: KnotMethod) -> KnotMethod {
        let name = r.choice(key, &METHODS.map(|method| (method, method))).unwrap_or("shortest-path");
        let method = match name {
            "equal-arc-length" => KnotMethod::EqualArcLength,
            "mse-matched" => {
                KnotMethod::MseMatched { pace: r.number("pace", Range::Positive).unwrap_or(score_sde_largest(None)) }
            }
            "joint" => KnotMethod::Joint { noise_levels: r.size("noise_levels", 2..=256).unwrap_or(24) },
            "straight" => KnotMethod::Straight,
            "even" => KnotMethod::Even,
            "file" => KnotMethod::File { file: r.required("file", "name a schedule.json made by softdiff schedule") },
            _ => KnotMethod::ShortestPath,
        };
        let owners = [("file", "method file"), ("pace", "method mse-matched"), ("noise_levels", "method joint")];
        r.refuse(&format!("method \"{name}\""), &owners);
        method
    }

    fn write(&self, w: &mut TomlWriter, key: &str, method: &KnotMethod) {
        w.value(key, method.name());
        match method {
            KnotMethod::File { file } => w.value("file", file),
            KnotMethod::MseMatched { pace } => w.value("pace", pace),
            KnotMethod::Joint { noise_levels } => w.value("noise_levels", noise_levels),
            _ => {}
        }
    }

    fn expected(&self) -> String {
        either(&METHODS)
    }
}

impl KnotMethod {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            KnotMethod::ShortestPath => "shortest-path",
            KnotMethod::EqualArcLength => "equal-arc-length",
            KnotMethod::MseMatched { .. } => "mse-matched",
            KnotMethod::Joint { .. } => "joint",
            KnotMethod::Straight => "straight",
            KnotMethod::Even => "even",
            KnotMethod::File { .. } => "file",
        }
    }
}

const METRICS: [&str; 7] = ["paired", "exact", "sinkhorn", "divergence", "sliced", "bures", "mmd"];

/// `metric` with its number.
struct MetricKey;

impl RecipeKey<TransportMetric> for MetricKey {
    fn read(&self, r: &Reader, key: &'static str, _: TransportMetric) -> TransportMetric {
        let name = r.choice(key, &METRICS.map(|name| (name, name))).unwrap_or("paired");
        let entropy = || r.number("entropy", Range::Positive).unwrap_or(20.0);
        let metric = match name {
            "exact" => TransportMetric::Exact,
            "sinkhorn" => TransportMetric::Sinkhorn { entropy: entropy() },
            "divergence" => TransportMetric::SinkhornDivergence { entropy: entropy() },
            "sliced" => {
                TransportMetric::Sliced { directions: r.size("directions", 1..=1_000_000).unwrap_or(256), seed: 0 }
            }
            "bures" => TransportMetric::Bures,
            "mmd" => TransportMetric::Mmd { bandwidth: r.number("bandwidth", Range::Positive).unwrap_or(15.0) },
            _ => TransportMetric::Paired,
        };
        let owners = [
            ("entropy", "metric sinkhorn or divergence"),
            ("directions", "metric sliced"),
            ("bandwidth", "metric mmd"),
        ];
        r.refuse(&format!("metric \"{name}\""), &owners);
        metric
    }

    fn write(&self, w: &mut TomlWriter, key: &str, metric: &TransportMetric) {
        let (name, number) = match metric {
            TransportMetric::Paired => ("paired", None),
            TransportMetric::Exact => ("exact", None),
            TransportMetric::Bures => ("bures", None),
            TransportMetric::Sinkhorn { entropy } => ("sinkhorn", Some(("entropy", entropy.to_toml()))),
            TransportMetric::SinkhornDivergence { entropy } => ("divergence", Some(("entropy", entropy.to_toml()))),
            TransportMetric::Sliced { directions, .. } => ("sliced", Some(("directions", directions.to_toml()))),
            TransportMetric::Mmd { bandwidth } => ("mmd", Some(("bandwidth", bandwidth.to_toml()))),
        };
        w.value(key, name);
        if let Some((key, number)) = number {
            w.line(key, number);
        }
    }

    fn expected(&self) -> String {
        either(&METRICS)
    }
}

impl ScheduleSection {
    /// Whether images have to be measured.
    pub fn measures(&self) -> bool {
        !matches!(self.method, KnotMethod::Straight | KnotMethod::Even | KnotMethod::File { .. })
    }

    /// `seed` is the recipe's, `side` that of the images where the recipe knows it.
    pub(in crate::recipe) fn read(r: &Reader, seed: u64, side: Option<usize>) -> Self {
        let name = r.peek("method").unwrap_or("shortest-path");
        r.refuse(&format!("method \"{name}\""), without(name));
        let matched = name == "mse-matched";
        let usual = Self { knots: if matched { MATCHED_KNOTS } else { 32 }, ..Self::defaults() };
        let mut section = Self::read_keys(r, usual);
        if let KnotMethod::MseMatched { pace } = &mut section.method
            && !r.has("pace")
        {
            *pace = score_sde_largest(side);
        }
        if let TransportMetric::Sliced { seed: of_directions, .. } = &mut section.metric {
            *of_directions = seed;
        }
        if !matched && !r.has("candidates") {
            section.candidates = section.candidates.max(section.knots);
        }
        if matches!(section.method, KnotMethod::ShortestPath | KnotMethod::EqualArcLength)
            && section.knots > section.candidates
        {
            let message = format!("{} knots cannot be chosen from {}", section.knots, section.candidates);
            let key = if r.has("candidates") { "candidates" } else { "knots" };
            r.problem(key, message, "give at least as many candidates as knots");
        }
        r.finish();
        section
    }

    pub(in crate::recipe) fn write(&self, w: &mut TomlWriter) {
        let without: Vec<&str> = without(self.method.name()).iter().map(|(key, _)| *key).collect();
        self.write_keys(w, &without);
    }
}
