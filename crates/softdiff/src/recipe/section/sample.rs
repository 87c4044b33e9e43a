//! `[sample]`: how images are made.

use super::{PathSection, TrainSection};
use crate::image::Quantise;
use crate::model::POSTHOC_WIDEST;
use crate::objective::{Kind, Objective};
use crate::path::Path;
use crate::recipe::reader::{Range, Reader};
use crate::recipe::writer::Writer;
use crate::sampler::{self, Ending, Sampler, SamplerError, Sampling};

const ENDINGS: [(&str, Ending); 3] =
    [("denoised", Ending::Denoised), ("stepped", Ending::Stepped), ("at-path-start", Ending::AtPathStart)];

const QUANTISE: [(&str, Quantise); 2] = [("round", Quantise::Round), ("truncate", Quantise::Truncate)];

/// Where the steps of a sampler end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grid {
    /// At equal distances in time.
    #[default]
    Uniform,
    /// At every knot of the path, and at equal distances in between.
    Knots,
}

const GRIDS: [(&str, Grid); 2] = [("uniform", Grid::Uniform), ("knots", Grid::Knots)];

/// Which weights of a checkpoint are used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weights {
    /// The average of this decay.
    Ema(f64),
    /// Those of the last step.
    Raw,
    /// An average of this width, made after training from those of the checkpoints.
    PostHoc(f64),
}

impl std::fmt::Display for Weights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Weights::Ema(decay) => write!(f, "ema-{decay}"),
            Weights::Raw => f.write_str("raw"),
            Weights::PostHoc(width) => write!(f, "posthoc-{width}"),
        }
    }
}

impl std::str::FromStr for Weights {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "raw" {
            return Ok(Weights::Raw);
        }
        if let Some(width) = text.strip_prefix("posthoc-") {
            let width = width.parse::<f64>().ok().filter(|width| *width > 0.0 && *width <= POSTHOC_WIDEST);
            let hint = "give \"posthoc-\" and a width above 0 and up to 0.28, such as \"posthoc-0.05\"";
            return width.map(Weights::PostHoc).ok_or_else(|| hint.to_owned());
        }
        let decay = text.strip_prefix("ema-").and_then(|decay| decay.parse::<f64>().ok());
        match decay.filter(|decay| *decay > 0.0 && *decay < 1.0) {
            Some(decay) => Ok(Weights::Ema(decay)),
            None => Err("give \"raw\", \"ema-\" and a decay, such as \"ema-0.999\", or \"posthoc-\" and a width, such as \"posthoc-0.05\"".to_owned()),
        }
    }
}

/// `[sample]`.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `sampler` | `"momentum"`; one-step `"ihdm"` | one of [`sampler::SAMPLERS`]; `"ihdm"` for objective.kind one-step and nothing else |
/// | `steps` | `280`; one-step `1 / objective.step` | steps, of equal size in time |
/// | `grid` | `"uniform"` | `"knots"`: steps that end at every knot of the path, of equal size in between; at least as many as there are |
/// | `warp` | `1` | above 1, shorter steps near the clean end: times to this power |
/// | `ending` | `"denoised"` | `"denoised"`, `"stepped"` or `"at-path-start"` |
/// | `quantise` | `"round"` | how samples become bytes: `"round"`, or `"truncate"` as score_sde does |
/// | `weights` | the first of `train.ema`, else raw | `"ema-0.999"`, `"raw"`, or `"posthoc-0.05"`: an average of this width relative to the training, made from the checkpoints that are kept |
/// | `churn`, `churn_rate`, `s_noise` | `0.3`, `5`, `1` | fresh noise of churn and churn-rate, and its factor, of ihdm as well |
/// | `eta` | `0` | of ddim, 0 to 1 |
/// | `snr`, `corrections`, `predictor` | `0.16`, `1`, `"momentum"` | of predictor-corrector |
/// | `tolerance`, `together` | `1e-5`, `false` | of dormand-prince |
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct SampleSection {
    pub sampler: String,
    pub steps: usize,
    pub grid: Grid,
    pub warp: f64,
    pub ending: Ending,
    pub quantise: Quantise,
    pub weights: Weights,
    pub options: sampler::Options,
}

impl SampleSection {
    /// The sampler with its options.
    pub fn build(&self) -> Result<Box<dyn Sampler>, SamplerError> {
        sampler::by_name(&self.sampler, &self.options)
    }

    /// Its steps on a path, and its ending.
    pub fn sampling(&self, path: &Path) -> Result<Sampling, SamplerError> {
        match self.grid {
            Grid::Uniform => self.sampling_in(self.steps),
            Grid::Knots => Ok(Sampling::through(self.steps, &path.knot_times())?.ending(self.ending)),
        }
    }

    /// The same with another number of steps, which may be too few for the knots: of equal size.
    pub fn sampling_in(&self, steps: usize) -> Result<Sampling, SamplerError> {
        Ok(Sampling::uniform(steps)?.warped(self.warp)?.ending(self.ending))
    }

    /// Evaluations of the network for one image, before any is made: the last step of the usual ending is a single one, and
    /// an adaptive sampler takes at least so many.
    pub fn expected_evaluations(&self) -> Result<usize, SamplerError> {
        let each = self.build()?.evaluations();
        Ok(if self.ending == Ending::Denoised { (self.steps - 1) * each + 1 } else { self.steps * each })
    }

    pub(in crate::recipe) fn read(r: &Reader, train: &TrainSection, path: &PathSection, objective: &Objective) -> Self {
        let usual = sampler::Options::default();
        let predictor = read_general_sampler(r, "predictor", path).filter(|name| {
            let itself = name == "predictor-corrector";
            if itself {
                r.problem(
                    "predictor",
                    "sample.predictor is the predictor-corrector itself",
                    "give another, such as momentum",
                );
            }
            !itself
        });
        let section = SampleSection {
            sampler: read_sampler(r, "sampler", path, objective).unwrap_or_else(|| usual_sampler(objective).to_owned()),
            steps: read_steps(r, objective).unwrap_or(280),
            grid: read_grid(r, objective).unwrap_or_default(),
            warp: read_warp(r, objective).unwrap_or(1.0),
            ending: r.choice("ending", &ENDINGS).unwrap_or_default(),
            quantise: r.choice("quantise", &QUANTISE).unwrap_or_default(),
            weights: read_weights(r, train)
                .unwrap_or(train.ema.first().map_or(Weights::Raw, |decay| Weights::Ema(*decay))),
            options: sampler::Options {
                churn: r.number("churn", Range::Unit).unwrap_or(usual.churn),
                churn_rate: r.number("churn_rate", Range::FromZero).unwrap_or(usual.churn_rate),
                s_noise: r.number("s_noise", Range::FromZero).unwrap_or(usual.s_noise),
                eta: r.number("eta", Range::Unit).unwrap_or(usual.eta),
                snr: r.number("snr", Range::Positive).unwrap_or(usual.snr),
                corrections: r.size("corrections", 1..=1000).unwrap_or(usual.corrections),
                predictor: predictor.unwrap_or(usual.predictor),
                tolerance: r.number("tolerance", Range::Positive).unwrap_or(usual.tolerance),
                together: r.flag("together").unwrap_or(usual.together),
            },
        };
        r.finish();
        section
    }

    pub(in crate::recipe) fn write(&self, w: &mut Writer) {
        w.section("sample");
        w.value("sampler", &self.sampler);
        w.value("steps", &self.steps);
        // Runs that were begun before there was this key keep their identity.
        if self.warp != 1.0 {
            w.value("warp", &self.warp);
        }
        if self.grid != Grid::Uniform {
            w.word("grid", &GRIDS, &self.grid);
        }
        w.word("ending", &ENDINGS, &self.ending);
        if self.quantise != Quantise::Round {
            w.word("quantise", &QUANTISE, &self.quantise);
        }
        w.value("weights", &self.weights.to_string());
        let options = &self.options;
        w.value("churn", &options.churn);
        w.value("churn_rate", &options.churn_rate);
        w.value("s_noise", &options.s_noise);
        w.value("eta", &options.eta);
        w.value("snr", &options.snr);
        w.value("corrections", &options.corrections);
        w.value("predictor", &options.predictor);
        w.value("tolerance", &options.tolerance);
        w.value("together", &options.together);
    }
}

/// The sampler of recipes that name none.
fn usual_sampler(objective: &Objective) -> &'static str {
    if matches!(objective.kind, Kind::OneStep { .. }) { "ihdm" } else { "momentum" }
}

/// A sampler's name that works with what the network predicts, and on the path.
pub(super) fn read_sampler(r: &Reader, key: &'static str, path: &PathSection, objective: &Objective) -> Option<String> {
    if !matches!(objective.kind, Kind::OneStep { .. }) {
        return read_general_sampler(r, key, path);
    }
    let name = r.choice(key, &sampler::names().map(|name| (name, name)).collect::<Vec<_>>())?;
    if !sampler::needs_one_step(name) {
        let message = format!("{} \"{name}\" needs a prediction of the clean image", r.full(key));
        r.problem(key, message, "give ihdm, the sampler of objective.kind one-step; or objective.kind soft");
        return None;
    }
    Some(name.to_owned())
}

/// Steps of the size that a one-step network takes, or any number of them.
pub(super) fn read_steps(r: &Reader, objective: &Objective) -> Option<usize> {
    let steps = r.size("steps", 1..=1_000_000);
    let Kind::OneStep { step } = objective.kind else { return steps };
    let needed = (1.0 / step).round() as usize;
    if let Some(steps) = steps.filter(|steps| *steps != needed) {
        let message = format!("{} is {steps}; a network of objective.step = {step} takes {needed}", r.full("steps"));
        r.problem("steps", message, format!("give {needed}, or leave it out"));
    }
    Some(needed)
}

fn read_grid(r: &Reader, objective: &Objective) -> Option<Grid> {
    let grid = r.choice("grid", &GRIDS)?;
    if grid == Grid::Knots && matches!(objective.kind, Kind::OneStep { .. }) {
        r.problem("grid", "sample.grid \"knots\"; a one-step network takes steps of one size", "leave it out");
    }
    if grid == Grid::Knots && r.has("warp") {
        r.problem("grid", "sample.grid \"knots\" and sample.warp both choose the times", "leave one of them out");
    }
    Some(grid)
}

fn read_warp(r: &Reader, objective: &Objective) -> Option<f64> {
    let warp = r.number("warp", Range::Positive)?;
    if matches!(objective.kind, Kind::OneStep { .. }) && warp != 1.0 {
        let message = format!("sample.warp is {warp}; a one-step network takes steps of one size");
        r.problem("warp", message, "leave it out, or give 1");
    }
    Some(warp)
}

/// A sampler's name that needs the clean image and works on the path.
fn read_general_sampler(r: &Reader, key: &'static str, path: &PathSection) -> Option<String> {
    let name = r.choice(key, &sampler::names().map(|name| (name, name)).collect::<Vec<_>>())?;
    if sampler::needs_one_step(name) {
        let message = format!("{} \"{name}\" needs a network trained with objective.kind one-step", r.full(key));
        r.problem(key, message, "give momentum, flow-momentum, heun or another, or objective.kind one-step");
        return None;
    }
    if sampler::needs_scale(name) && !path.is_scale() {
        let message = format!("{} \"{name}\" works only where C is a number times the identity", r.full(key));
        r.problem(
            key,
            message,
            "give momentum, flow-momentum, heun or another general sampler, or path.kind ve, vp or sub-vp",
        );
        return None;
    }
    Some(name.to_owned())
}

fn read_weights(r: &Reader, train: &TrainSection) -> Option<Weights> {
    let text = r.text("weights")?;
    match text.parse() {
        Ok(Weights::Ema(decay)) if !train.ema.contains(&decay) => {
            let message = format!("sample.weights is ema-{decay}, which train.ema does not keep");
            let kept: Vec<String> = train.ema.iter().map(|decay| format!("\"ema-{decay}\"")).collect();
            r.problem("weights", message, format!("give \"raw\" or one of: {}", kept.join(", ")));
            None
        }
        Ok(weights) => Some(weights),
        Err(hint) => {
            r.problem("weights", format!("sample.weights is {}", softdiff_data::quote::quote(&text)), hint);
            None
        }
    }
}
