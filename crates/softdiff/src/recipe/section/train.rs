//! `[train]`: the optimiser and how long.

use super::UNLIMITED;
use crate::recipe::reader::{Range, Reader};
use crate::recipe::writer::Writer;
use softdiff_engine::Precision;
use softdiff_engine::optim::AdamConfig;

const PRECISIONS: [(&str, Precision); 2] = [("f32", Precision::F32), ("bf16", Precision::Bf16)];

/// `[train]`. Defaults are the paper's.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `steps` | `1_000_000` | updates to do |
/// | `from` | `false` | a run, model or imported file whose weights to begin with; with those of an import come its average and Adam's moments |
/// | `batch` | `128` | images per update, 1 to 65536 |
/// | `accumulate` | `1` | parts in which a batch is computed, each a whole fraction of it |
/// | `recompute` | `false` | compute cheap results again for the gradients: the same result in less memory, slower |
/// | `stratified` | `false` | draw one time in each of as many equal parts of [0, 1] as there are images in a part of the batch |
/// | `precision` | `"bf16"` | `"f32"` or `"bf16"`, which processors compute as f32 |
/// | `rate` | `2e-4` | learning rate after warm-up |
/// | `beta1`, `beta2`, `epsilon` | `0.9`, `0.999`, `1e-8` | of Adam |
/// | `warmup` | `5000` | steps over which the rate grows from 0 |
/// | `cooldown` | `0` | last steps, over which the rate falls to 0; in a shorter run, all |
/// | `clip` | `1` | largest norm of the gradient, or false |
/// | `ema` | `[0.999]` | decays of the averages to keep, at most 8 |
/// | `log_every` | `100` | steps between two events |
/// | `bins` | `10` | time bins of the loss |
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct TrainSection {
    pub steps: u64,
    pub from: Option<String>,
    pub batch: usize,
    pub accumulate: usize,
    pub recompute: bool,
    pub stratified: bool,
    pub precision: Precision,
    pub rate: f64,
    pub beta1: f64,
    pub beta2: f64,
    pub epsilon: f64,
    pub warmup: u64,
    pub cooldown: u64,
    pub clip: Option<f64>,
    pub ema: Vec<f64>,
    pub log_every: u64,
    pub bins: usize,
}

impl Default for TrainSection {
    fn default() -> Self {
        let AdamConfig { rate, beta1, beta2, epsilon, warmup, cooldown, clip, ema, .. } = AdamConfig::default();
        TrainSection {
            steps: 1_000_000,
            from: None,
            batch: 128,
            accumulate: 1,
            recompute: false,
            stratified: false,
            precision: Precision::Bf16,
            rate,
            beta1,
            beta2,
            epsilon,
            warmup,
            cooldown,
            clip,
            ema,
            log_every: 100,
            bins: 10,
        }
    }
}

impl TrainSection {
    /// The optimiser.
    pub fn adam(&self) -> AdamConfig {
        AdamConfig {
            rate: self.rate,
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            warmup: self.warmup,
            cooldown: self.cooldown.min(self.steps),
            steps: self.steps,
            clip: self.clip,
            ema: self.ema.clone(),
        }
    }

    /// The ends of the time bins of the loss, ascending to 1.
    pub fn time_bins(&self) -> Vec<f64> {
        (1..=self.bins).map(|bin| bin as f64 / self.bins as f64).collect()
    }

    pub(in crate::recipe) fn read(r: &Reader) -> Self {
        let usual = TrainSection::default();
        let section = TrainSection {
            steps: r.whole("steps", 1..=UNLIMITED).unwrap_or(usual.steps),
            from: r.text_or_false("from").unwrap_or(usual.from),
            batch: r.size("batch", 1..=65_536).unwrap_or(usual.batch),
            accumulate: r.size("accumulate", 1..=65_536).unwrap_or(usual.accumulate),
            recompute: r.flag("recompute").unwrap_or(usual.recompute),
            stratified: r.flag("stratified").unwrap_or(usual.stratified),
            precision: r.choice("precision", &PRECISIONS).unwrap_or(usual.precision),
            rate: r.number("rate", Range::Positive).unwrap_or(usual.rate),
            beta1: r.number("beta1", Range::BelowOne).unwrap_or(usual.beta1),
            beta2: r.number("beta2", Range::BelowOne).unwrap_or(usual.beta2),
            epsilon: r.number("epsilon", Range::Positive).unwrap_or(usual.epsilon),
            warmup: r.whole("warmup", 0..=UNLIMITED).unwrap_or(usual.warmup),
            cooldown: r.whole("cooldown", 0..=UNLIMITED).unwrap_or(usual.cooldown),
            clip: r.number_or_word("clip", Range::Positive, "false").unwrap_or(usual.clip),
            ema: r.numbers("ema", Range::Between, 8).unwrap_or(usual.ema),
            log_every: r.whole("log_every", 1..=UNLIMITED).unwrap_or(usual.log_every),
            bins: r.size("bins", 1..=1000).unwrap_or(usual.bins),
        };
        if !section.batch.is_multiple_of(section.accumulate) {
            let message = format!("a batch of {} has no {} equal parts", section.batch, section.accumulate);
            r.problem("accumulate", message, "give a divisor of train.batch");
        }
        let twice = section.ema.iter().enumerate().find(|(index, decay)| section.ema[..*index].contains(decay));
        if let Some((_, decay)) = twice {
            r.problem("ema", format!("train.ema has {decay} twice"), "name each decay once");
        }
        r.finish();
        section
    }

    pub(in crate::recipe) fn write(&self, w: &mut Writer) {
        w.section("train");
        w.value("steps", &self.steps);
        // Runs that were begun before there was this key keep their identity.
        if self.from.is_some() {
            w.value("from", &self.from);
        }
        w.value("batch", &self.batch);
        w.value("accumulate", &self.accumulate);
        if self.recompute {
            w.value("recompute", &self.recompute);
        }
        if self.stratified {
            w.value("stratified", &self.stratified);
        }
        w.word("precision", &PRECISIONS, &self.precision);
        w.value("rate", &self.rate);
        w.value("beta1", &self.beta1);
        w.value("beta2", &self.beta2);
        w.value("epsilon", &self.epsilon);
        w.value("warmup", &self.warmup);
        if self.cooldown > 0 {
            w.value("cooldown", &self.cooldown);
        }
        w.value("clip", &self.clip);
        w.value("ema", self.ema.as_slice());
        w.value("log_every", &self.log_every);
        w.value("bins", &self.bins);
    }
}
