//! `schedule.json`: the knots, and everything needed to make them again.

use super::{ScheduleError, TransportMetric, VarianceExploding};
use crate::corruption::{Corruption, Shape};
use crate::curve::{Curve, Interpolation};
use crate::noise::{NOISE_STAGE, Noise};
use softdiff_engine::HintedMessage;
use softdiff_engine::hash::ContentHash;
use softdiff_engine::regular_file;
use std::path::Path;

/// Version of the file.
const FORMAT: &str = "softdiff-schedule/1";
/// Files above this size are refused.
pub const LARGEST_SCHEDULE: u64 = 16 << 20;
/// What the hashes of versions before BLAKE3 begin with.
const OLD_HASH: &str = "fnv1a64:";

/// A schedule: corruption levels at equal distances of time, from clean to fully corrupted.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Version of the file.
    pub format: String,
    /// The corruption, with its parameters.
    pub corruption: String,
    /// The images.
    pub shape: Shape,
    /// How the knots were chosen.
    pub method: Method,
    /// The distance used.
    pub metric: TransportMetric,
    /// The images measured.
    pub data: DataRecord,
    /// Levels to choose from.
    pub candidates: Vec<f64>,
    /// Levels chosen.
    pub knots: Vec<f64>,
    /// Distance from each knot to the next; for methods off the candidates, interpolated along them.
    pub hops: Vec<f64>,
    /// Sum of the hops.
    pub path_cost: f64,
    /// The noise at each knot, where it was chosen together with the level; the knots then lie at equal times from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigmas: Option<Vec<f64>>,
    /// How levels run between knots.
    pub interpolation: Interpolation,
    /// What [`Method::MseMatched`] was matched with; absent in files of versions that matched progress instead of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
    /// The knots of the equal-arc-length schedule, for comparison: the two should nearly agree.
    pub equal_arc_length: Vec<f64>,
    /// Distances measured that did not reach their tolerance; 0 in a sound schedule.
    pub unconverged: usize,
    /// How much the knots move with the choice of images.
    pub spread: Option<Spread>,
}

/// How knots were chosen.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Method {
    /// Soft Diffusion, section 3.3.
    ShortestPath {
        /// The limit of one hop (the paper's epsilon).
        max_hop: f64,
    },
    /// Equal distances along all candidates.
    EqualArcLength,
    /// The paper's baseline: squared error grows as under pure noise.
    MseMatched {
        /// The diffusion whose pace is copied.
        pace: VarianceExploding,
        /// Standard deviation of the noise at t = 1.
        sigma: f64,
    },
    /// Levels and noise chosen together: the shortest path on a grid of both (appendix, "Noise changing throughout the
    /// diffusion", left there as future work).
    Joint {
        /// The limit of one hop.
        max_hop: f64,
        /// Noise at t = 0.
        smallest: f64,
        /// Noise at t = 1.
        largest: f64,
        /// Noise levels to choose from, at equal ratios.
        noise_levels: usize,
    },
}

/// The noise of a path over time, and when its corruption begins.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// The noise.
    pub noise: Noise,
    /// The time of the first knot; the last one is at 1.
    pub start: f64,
}

impl Timing {
    /// The paper's two stages.
    pub const PAPER: Timing = Timing { noise: Noise::PAPER, start: NOISE_STAGE };
}

/// Which images were measured.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataRecord {
    /// Where they came from, in words.
    pub source: String,
    /// FNV-1a 64 of all values of the source in [0, 1], as little-endian f64.
    pub hash: String,
    /// Images the source holds.
    pub available: usize,
    /// Images measured.
    pub images: usize,
    /// Seed of their choice.
    pub seed: u64,
}

/// Knots over several choices of images.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Seeds of the choices.
    pub seeds: Vec<u64>,
    /// Mean of each knot.
    pub mean: Vec<f64>,
    /// Standard deviation of each knot.
    pub deviation: Vec<f64>,
}

impl Spread {
    /// Mean and deviation of each knot over several schedules of equal length.
    pub(super) fn of(seeds: Vec<u64>, runs: &[Vec<f64>]) -> Self {
        let count = runs.len() as f64;
        let knots = 0..runs.first().map_or(0, Vec::len);
        let mean: Vec<f64> = knots.clone().map(|k| runs.iter().map(|run| run[k]).sum::<f64>() / count).collect();
        let deviation = knots
            .map(|k| {
                let squares: f64 = runs.iter().map(|run| (run[k] - mean[k]).powi(2)).sum();
                (squares / (count - 1.0).max(1.0)).sqrt()
            })
            .collect();
        Spread { seeds, mean, deviation }
    }
}

impl Schedule {
    /// The version this library writes.
    pub fn current_format() -> String {
        FORMAT.to_owned()
    }

    /// The level over progress in [0, 1].
    pub fn curve(&self) -> Result<Curve, ScheduleError> {
        Ok(Curve::uniform(self.knots.clone(), self.interpolation)?)
    }

    /// When the corruption begins and the noise over time: the schedule's own where it has chosen them, else `usual`.
    pub fn timing(&self, usual: Timing) -> Result<Timing, ScheduleError> {
        let Some(sigmas) = &self.sigmas else { return Ok(usual) };
        Ok(Timing { noise: Noise::Curve(Curve::uniform(sigmas.clone(), self.interpolation)?), start: 0.0 })
    }

    /// The file's text.
    pub fn to_json(&self) -> String {
        // Only maps with keys that are no strings, and failing writers, cannot be written; there are none here.
        serde_json::to_string_pretty(self).expect("a schedule is always JSON") + "\n"
    }

    /// Content hash of the file's text, which checkpoints carry.
    pub fn hash(&self) -> ContentHash {
        ContentHash::of(self.to_json().as_bytes())
    }

    /// Whether it was made for this corruption of images of this shape.
    ///
    /// The description of a custom or composed corruption has a hash. A schedule with a hash of an older version (FNV)
    /// is compared by the rest of the description.
    pub fn is_for(&self, corruption: &dyn Corruption) -> bool {
        let description = corruption.describe();
        let same = match self.corruption.contains(OLD_HASH) {
            true => without_hashes(&self.corruption, OLD_HASH) == without_hashes(&description, "blake3:"),
            false => self.corruption == description,
        };
        same && self.shape == corruption.shape()
    }

    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<Self, ScheduleError> {
        let fail = |problem: HintedMessage| ScheduleError::File { path: path.display().to_string(), problem };
        Self::from_file(&regular_file::read(path, LARGEST_SCHEDULE).map_err(|e| fail(e.to_string().into()))?, path)
    }

    /// The schedule in the bytes of a file; `path` is for the error.
    pub fn from_file(bytes: &[u8], path: &Path) -> Result<Self, ScheduleError> {
        let fail = |problem: HintedMessage| ScheduleError::File { path: path.display().to_string(), problem };
        if bytes.len() as u64 > LARGEST_SCHEDULE {
            return Err(fail(format!("it is larger than the {LARGEST_SCHEDULE} bytes a schedule may have").into()));
        }
        let schedule = Self::from_json(bytes).map_err(fail)?;
        schedule.curve().map_err(|e| fail(HintedMessage::of(e)))?;
        schedule.timing(Timing::PAPER).map_err(|e| fail(HintedMessage::of(e)))?;
        Ok(schedule)
    }

    /// Parses and checks the text of a file.
    pub fn from_json(text: &[u8]) -> Result<Self, HintedMessage> {
        let schedule: Schedule = serde_json::from_slice(text).map_err(|e| e.to_string())?;
        if schedule.format != FORMAT {
            let message = format!("format \"{}\" is not \"{FORMAT}\"", schedule.format);
            return Err(HintedMessage::new(message, "make the schedule anew"));
        }
        if let Some(sigmas) = schedule.sigmas.as_ref().filter(|sigmas| sigmas.len() != schedule.knots.len()) {
            return Err(format!("{} noise levels do not go with {} knots", sigmas.len(), schedule.knots.len()).into());
        }
        if schedule.hops.len() + 1 != schedule.knots.len() {
            return Err(format!("{} hops do not join {} knots", schedule.hops.len(), schedule.knots.len()).into());
        }
        Ok(schedule)
    }
}

/// A description without its hashes, which begin with `prefix`.
fn without_hashes(description: &str, prefix: &str) -> String {
    let mut parts = description.split(prefix);
    let first = parts.next().into_iter();
    first.chain(parts.map(|part| part.trim_start_matches(|c: char| c.is_ascii_hexdigit()))).collect()
}
