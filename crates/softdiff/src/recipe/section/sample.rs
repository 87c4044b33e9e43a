//! `[sample]`: how images are made.

use super::{PathSection, TrainSection};
use crate::image::Quantise;
use crate::model::POSTHOC_WIDEST;
use crate::objective::{Kind, Objective};
use crate::path::Path;
use crate::recipe::keys::{Flag, Number, RecipeKey, Size, Word, section};
use crate::recipe::reader::{Range, Reader, either};
use crate::recipe::writer::TomlWriter;
use crate::sampler::{self, Ending, MOST_STEPS, Options, Sampler, SamplerError, Sampling};

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

section! {
    /// `[sample]`.
    pub struct SampleSection in "sample" (sampler: &str, weights: Weights) {
        sampler: String = sampler.to_owned(), SamplerKey, "its name; by default \"ihdm\" for objective.kind one-step, else \"momentum\"";
        steps: usize = 280, Size(1..=MOST_STEPS as u64), "steps, of equal size in time; of a one-step network 1 / objective.step";
        warp: f64 = 1.0, Number(Range::Positive), "above 1, shorter steps near the clean end: times to this power", unless_default;
        grid: Grid = Grid::Uniform, Word(&GRIDS), "\"knots\": steps that end at every knot of the path, of equal size in between; at least as many as there are", unless_default;
        guidance: f64 = 1.0, Number(Range::Hundred), "above 1, autoguidance: this factor of the difference to a weaker model's prediction (--guide) is taken", unless_default;
        ending: Ending = Ending::Denoised, Word(&ENDINGS), "what the last step does";
        quantise: Quantise = Quantise::Round, Word(&QUANTISE), "how samples become bytes; score_sde truncates", unless_default;
        weights: Weights = weights, WeightsKey, "the weights to sample with; by default the first of train.ema";
        churn: f64 = Options::default().churn, Number(Range::Unit), "fresh noise in each step of churn";
        churn_rate: f64 = Options::default().churn_rate, Number(Range::FromZero), "fresh noise per unit of time of churn-rate";
        s_noise: f64 = Options::default().s_noise, Number(Range::FromZero), "factor of the fresh noise of churn, churn-rate and ihdm";
        eta: f64 = Options::default().eta, Number(Range::Unit), "of ddim: how much of DDPM's noise is added";
        snr: f64 = Options::default().snr, Number(Range::Positive), "of predictor-corrector: signal-to-noise ratio of a corrector step";
        corrections: usize = Options::default().corrections, Size(1..=1000), "of predictor-corrector: corrector steps after each step";
        predictor: String = Options::default().predictor, SamplerKey, "of predictor-corrector: the predictor";
        tolerance: f64 = Options::default().tolerance, Number(Range::Positive), "of dormand-prince: error of a step";
        together: bool = Options::default().together, Flag(), "of dormand-prince: all images of a batch take the steps of the worst";
    }
}

/// The name of a sampler.
pub(super) struct SamplerKey;

impl RecipeKey<String> for SamplerKey {
    fn read(&self, r: &Reader, key: &'static str, usual: String) -> String {
        let names: Vec<_> = sampler::names().map(|name| (name, name)).collect();
        r.choice(key, &names).map_or(usual, str::to_owned)
    }
    fn write(&self, w: &mut TomlWriter, key: &str, value: &String) {
        w.value(key, value);
    }
    fn expected(&self) -> String {
        either(&sampler::names().collect::<Vec<_>>())
    }
}

/// Which weights.
struct WeightsKey;

impl RecipeKey<Weights> for WeightsKey {
    fn read(&self, r: &Reader, key: &'static str, usual: Weights) -> Weights {
        let Some(text) = r.text(key) else { return usual };
        text.parse().unwrap_or_else(|hint: String| {
            r.problem(key, format!("{} is {}", r.full(key), softdiff_data::quote::quote(&text)), hint);
            usual
        })
    }
    fn write(&self, w: &mut TomlWriter, key: &str, value: &Weights) {
        w.value(key, &value.to_string());
    }
    fn expected(&self) -> String {
        "raw, ema- and a decay, such as ema-0.999, or posthoc- and a width relative to the training, such as posthoc-0.05, \
         made from the checkpoints that are kept"
            .to_owned()
    }
}

impl SampleSection {
    /// The options of the samplers.
    pub fn options(&self) -> Options {
        Options {
            churn: self.churn,
            churn_rate: self.churn_rate,
            s_noise: self.s_noise,
            eta: self.eta,
            snr: self.snr,
            corrections: self.corrections,
            predictor: self.predictor.clone(),
            tolerance: self.tolerance,
            together: self.together,
        }
    }

    /// The sampler with its options.
    pub fn build(&self) -> Result<Box<dyn Sampler>, SamplerError> {
        sampler::by_name(&self.sampler, &self.options())
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
        let weights = train.ema.first().map_or(Weights::Raw, |decay| Weights::Ema(*decay));
        let mut section = Self::read_keys(r, Self::defaults(usual_sampler(objective), weights));
        check_sampler(r, "sampler", &mut section.sampler, usual_sampler(objective), path, objective);
        check_steps(r, &mut section.steps, objective);
        section.check_times(r, objective);
        section.check_weights(r, train);
        section.check_predictor(r, path);
        r.finish();
        section
    }

    pub(in crate::recipe) fn write(&self, w: &mut TomlWriter) {
        self.write_keys(w, &[]);
    }

    fn check_times(&self, r: &Reader, objective: &Objective) {
        let one_step = matches!(objective.kind, Kind::OneStep { .. });
        if self.grid == Grid::Knots && one_step {
            r.problem("grid", "sample.grid \"knots\"; a one-step network takes steps of one size", "leave it out");
        }
        if self.grid == Grid::Knots && r.has("warp") {
            r.problem("grid", "sample.grid \"knots\" and sample.warp both choose the times", "leave one of them out");
        }
        if one_step && self.warp != 1.0 {
            let message = format!("sample.warp is {}; a one-step network takes steps of one size", self.warp);
            r.problem("warp", message, "leave it out, or give 1");
        }
    }

    fn check_weights(&self, r: &Reader, train: &TrainSection) {
        if let Weights::Ema(decay) = self.weights
            && !train.ema.contains(&decay)
        {
            let message = format!("sample.weights is ema-{decay}, which train.ema does not keep");
            let kept: Vec<String> = train.ema.iter().map(|decay| format!("\"ema-{decay}\"")).collect();
            r.problem("weights", message, format!("give \"raw\" or one of: {}", kept.join(", ")));
        }
    }

    fn check_predictor(&self, r: &Reader, path: &PathSection) {
        if !r.has("predictor") {
            return;
        }
        if self.predictor == "predictor-corrector" {
            let message = "sample.predictor is the predictor-corrector itself";
            r.problem("predictor", message, "give another, such as momentum");
        }
        needs_what_is_there(r, "predictor", &self.predictor, path);
    }
}

/// The sampler of recipes that name none.
fn usual_sampler(objective: &Objective) -> &'static str {
    if matches!(objective.kind, Kind::OneStep { .. }) { "ihdm" } else { "momentum" }
}

/// A sampler that works with what the network predicts, and on the path; else `usual`, and the problem is noted.
pub(super) fn check_sampler(
    r: &Reader,
    key: &'static str,
    name: &mut String,
    usual: &str,
    path: &PathSection,
    objective: &Objective,
) {
    let one_step = matches!(objective.kind, Kind::OneStep { .. });
    if !r.has(key) {
        return;
    }
    if one_step && !sampler::needs_one_step(name) {
        let message = format!("{} \"{name}\" needs a prediction of the clean image", r.full(key));
        r.problem(key, message, "give ihdm, the sampler of objective.kind one-step; or objective.kind soft");
        *name = usual.to_owned();
    }
    if !one_step && !needs_what_is_there(r, key, name, path) {
        *name = usual.to_owned();
    }
}

/// Whether a sampler needs the clean image and works on the path.
fn needs_what_is_there(r: &Reader, key: &'static str, name: &str, path: &PathSection) -> bool {
    if sampler::needs_one_step(name) {
        let message = format!("{} \"{name}\" needs a network trained with objective.kind one-step", r.full(key));
        r.problem(key, message, "give momentum, flow-momentum, heun or another, or objective.kind one-step");
        return false;
    }
    if sampler::needs_scale(name) && !path.is_scale() {
        let message = format!("{} \"{name}\" works only where C is a number times the identity", r.full(key));
        let hint = "give momentum, flow-momentum, heun or another general sampler, or path.kind ve, vp or sub-vp";
        r.problem(key, message, hint);
        return false;
    }
    true
}

/// Steps of the size that a one-step network takes.
pub(super) fn check_steps(r: &Reader, steps: &mut usize, objective: &Objective) {
    let Kind::OneStep { step } = objective.kind else { return };
    let needed = (1.0 / step).round() as usize;
    if r.has("steps") && *steps != needed {
        let message = format!("{} is {steps}; a network of objective.step = {step} takes {needed}", r.full("steps"));
        r.problem("steps", message, format!("give {needed}, or leave it out"));
    }
    *steps = needed;
}
