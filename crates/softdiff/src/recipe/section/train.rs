//! `[train]`: the optimiser and how long.

use super::UNLIMITED;
use crate::recipe::keys::{Flag, Number, NumberOrOff, Numbers, Size, TextOrOff, Whole, Word, section};
use crate::recipe::reader::{Range, Reader};
use crate::recipe::writer::TomlWriter;
use softdiff_engine::Precision;
use softdiff_engine::optim::AdamConfig;

const PRECISIONS: [(&str, Precision); 2] = [("f32", Precision::F32), ("bf16", Precision::Bf16)];

section! {
    /// `[train]`. Defaults are the paper's.
    pub struct TrainSection in "train" () {
        steps: u64 = 1_000_000, Whole(1..=UNLIMITED), "updates to do";
        from: Option<String> = None, TextOrOff(), "a run, model or imported file whose weights to begin with; with those of an import come its average and Adam's moments", unless_default;
        batch: usize = 128, Size(1..=65_536), "images per update";
        accumulate: usize = 1, Size(1..=65_536), "equal parts in which a batch is computed; several processes share them, with 1 in as many parts as there are processes, or 8";
        recompute: bool = false, Flag(), "compute cheap results again for the gradients: the same result in less memory, slower", unless_default;
        stratified: bool = false, Flag(), "draw one time in each of as many equal parts of [0, 1] as there are images in a batch", unless_default;
        precision: Precision = Precision::Bf16, Word(&PRECISIONS), "of the activations; processors compute bf16 as f32";
        rate: f64 = AdamConfig::default().rate, Number(Range::Positive), "learning rate after warm-up";
        beta1: f64 = AdamConfig::default().beta1, Number(Range::BelowOne), "of Adam";
        beta2: f64 = AdamConfig::default().beta2, Number(Range::BelowOne), "of Adam";
        epsilon: f64 = AdamConfig::default().epsilon, Number(Range::Positive), "of Adam";
        warmup: u64 = AdamConfig::default().warmup, Whole(0..=UNLIMITED), "steps over which the learning rate grows from 0";
        cooldown: u64 = 0, Whole(0..=UNLIMITED), "last steps, over which the learning rate falls to 0; in a shorter run, all", unless_default;
        clip: Option<f64> = AdamConfig::default().clip, NumberOrOff(Range::Positive), "largest norm of the gradient";
        ema: Vec<f64> = AdamConfig::default().ema, Numbers(Range::Between, 8), "decays of the averages to keep";
        log_every: u64 = 100, Whole(1..=UNLIMITED), "steps between two events";
        bins: usize = 10, Size(1..=1000), "time bins of the loss";
    }
}

impl Default for TrainSection {
    fn default() -> Self {
        Self::defaults()
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
        let section = Self::read_keys(r, Self::defaults());
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

    pub(in crate::recipe) fn write(&self, w: &mut TomlWriter) {
        self.write_keys(w, &[]);
    }
}
