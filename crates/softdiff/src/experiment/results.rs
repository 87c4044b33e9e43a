//! `results.json`: what an experiment has found so far, written after every measurement.

use super::ExperimentError;
use crate::inception::Preset;
use serde::{Deserialize, Serialize};
use softdiff_engine::{atomic_file, regular_file};
use std::io::Write;
use std::path::Path;

/// FID of fewer images is dominated by its bias; the paper takes 50000.
const MANY: usize = 50_000;
/// The longest `results.json`.
const LONGEST: u64 = 64 << 20;

/// The metric of experiments without a network.
pub const EXACT: &str = "exact-w2";

/// What was found, and under which budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExperimentResults {
    /// The experiment.
    pub experiment: String,
    /// Where the paper shows it.
    pub paper: String,
    /// The data, without folders, which say nothing elsewhere.
    pub data: Vec<String>,
    /// The budget in words.
    pub budget: String,
    /// Training steps of each model; 0 where none is trained.
    pub steps: u64,
    /// Images in a step.
    pub batch: usize,
    /// Images behind each number.
    pub samples: usize,
    /// Sets of sampling seeds behind each number.
    #[serde(default = "one")]
    pub seeds: usize,
    /// `fid`, `sliced-wasserstein` or `exact-w2`.
    pub metric: String,
    /// The images that samples are measured against: number, size, part and hash.
    #[serde(default)]
    pub reference: String,
    /// Hash of the FID network's weights.
    pub network: Option<String>,
    /// Where it was computed.
    pub device: String,
    /// The command that was given last.
    pub command: String,
    /// The metric of other images of the data, as a yardstick.
    pub floor: Option<f64>,
    /// The measurements.
    pub rows: Vec<MeasurementRow>,
    /// The schedules, where they are shown.
    pub schedules: Vec<ScheduleLevels>,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasurementRow {
    /// The model.
    pub variant: String,
    /// The sampler.
    pub sampler: String,
    /// Its steps.
    pub sampler_steps: usize,
    /// Evaluations of the network per image (NFE).
    pub evaluations: usize,
    /// Training steps of the model.
    pub train_steps: u64,
    /// Images it saw in training.
    pub images_seen: u64,
    /// Images measured.
    pub samples: usize,
    /// What was measured.
    pub metric: String,
    /// The number; smaller is better.
    pub value: f64,
    /// Its error where it is known: of several sets of seeds, the standard deviation over them.
    pub error: Option<f64>,
    /// The number of each set of seeds.
    #[serde(default)]
    pub by_seed: Vec<f64>,
    /// Share of samples much nearer to one training image than to any other.
    pub memorised: Option<f64>,
    /// Seconds of sampling.
    pub seconds: f64,
    /// What the paper reports.
    pub paper: String,
}

/// A schedule in numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleLevels {
    /// Whose.
    pub variant: String,
    /// ScheduleLevels chosen.
    pub knots: usize,
    /// The sum of the distances between them.
    pub cost: f64,
    /// The longest of these distances.
    pub longest_hop: f64,
    /// Times and levels.
    pub levels: Vec<(f64, f64)>,
    /// Times and noise.
    pub noise: Vec<(f64, f64)>,
}

fn one() -> usize {
    1
}

impl MeasurementRow {
    /// The least over several sets of seeds.
    pub fn least(&self) -> Option<f64> {
        (self.by_seed.len() > 1).then(|| self.by_seed.iter().copied().fold(f64::INFINITY, f64::min))
    }
}

impl ExperimentResults {
    /// What an earlier run left, if anything.
    pub fn read(path: &Path) -> Result<Option<ExperimentResults>, ExperimentError> {
        let text = match regular_file::read_text(path, LONGEST) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ExperimentError::Unreadable { path: path.into(), error }),
        };
        let unlike = |error| ExperimentError::NotResults { path: path.into(), error };
        serde_json::from_str(&text).map(Some).map_err(unlike)
    }

    /// Writes all or nothing.
    pub fn write(&self, path: &Path) -> Result<(), ExperimentError> {
        let text = serde_json::to_string_pretty(self).expect("strings and numbers are JSON") + "\n";
        let written = atomic_file::write_in_folder(path, |to| to.write_all(text.as_bytes()));
        written.map_err(|error| ExperimentError::Unwritable { path: path.into(), error })
    }

    /// The measurement of a model at a setting, if it was made of just these steps, in this manner.
    pub fn find(&self, variant: &str, sampler: &str, sampler_steps: usize) -> Option<&MeasurementRow> {
        self.rows.iter().find(|row| {
            row.variant == variant
                && row.sampler == sampler
                && row.sampler_steps == sampler_steps
                && (row.train_steps, row.samples, &row.metric) == (self.steps, self.samples, &self.metric)
                && row.by_seed.len().max(1) == self.seeds.max(1)
        })
    }

    /// Puts a measurement in the place of an older one.
    pub fn put(&mut self, row: MeasurementRow) {
        let same = |old: &MeasurementRow| {
            (&old.variant, &old.sampler, old.sampler_steps) == (&row.variant, &row.sampler, row.sampler_steps)
        };
        match self.rows.iter_mut().find(|old| same(old)) {
            Some(old) => *old = row,
            None => self.rows.push(row),
        }
    }

    /// What was measured, in words that leave no doubt.
    pub fn metric_words(&self) -> &'static str {
        match self.metric.as_str() {
            "fid" => "FID",
            EXACT => "W2 to the true Gaussian",
            _ => "sliced Wasserstein (pixels)",
        }
    }

    /// The budget, stated with every number.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("data", self.data.join(", "))];
        if self.steps == 0 {
            facts.push(("training", "none".into()));
            if self.metric == EXACT {
                let words = "W2 between Gaussian images and what the sampler makes of them with the exact denoiser";
                facts.push(("each number", words.into()));
                facts.push(("measured against", self.reference.clone()));
            }
            return facts;
        }
        let kind = match self.metric.as_str() {
            "fid" if self.samples < MANY => ", biased upwards: compare with FID of as many images only",
            "fid" => "",
            _ => ", which is not FID",
        };
        let seen = self.steps * self.batch as u64;
        facts.push(("budget", self.budget.clone()));
        facts.push(("each model", format!("{} steps of {} images, {seen} images seen", self.steps, self.batch)));
        facts.push(("each number", format!("{} of {} images{kind}", self.metric_words(), self.samples)));
        if let Some(floor) = self.floor {
            facts.push(("other images of the data", format!("{floor:.4}, as a yardstick")));
        }
        if !self.reference.is_empty() {
            facts.push(("measured against", self.reference.clone()));
        }
        let last = (self.samples * self.seeds.max(1)).saturating_sub(1);
        facts.push((
            "seeds",
            match self.seeds {
                0 | 1 => format!("0 to {last}"),
                sets => format!("0 to {last} in {sets} sets; mean ± standard deviation over them, and the least"),
            },
        ));
        if let Some(network) = &self.network {
            facts.push(("FID network", format!("{network}, preset {}", Preset::default())));
        }
        facts.push(("program", crate::run::build()));
        facts.push(("device", self.device.clone()));
        facts
    }
}
