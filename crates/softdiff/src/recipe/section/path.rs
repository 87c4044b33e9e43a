//! `[path]`: how the image is lost over time.

use super::CorruptionSection;
use crate::noise::{Alpha, NOISE_STAGE, Noise, PAPER_LARGEST, PAPER_SMALLEST};
use crate::recipe::keys::{Flag, Number, RecipeKey, section_by};
use crate::recipe::reader::{Range, Reader};
use crate::recipe::writer::TomlWriter;
use crate::schedule::Timing;

section_by! {
    /// `[path]`, by `kind`.
    pub enum PathSection in "path" by "kind" (side: Option<usize>) {
        /// The paper's: noise first, then the corruption.
        TwoStage = "two-stage" {
            smallest: f64 = PAPER_SMALLEST, Number(Range::Positive), "noise at t = 0";
            largest: f64 = PAPER_LARGEST, Number(Range::Positive), "noise at t = 1";
            noise_stage: f64 = NOISE_STAGE, Number(Range::Between), "time in which only noise grows";
            corruption: CorruptionSection = CorruptionSection::default(), CorruptionKey, "the corruption";
        },
        /// Noise and corruption together.
        Simultaneous = "simultaneous" {
            smallest: f64 = PAPER_SMALLEST, Number(Range::Positive), "noise at t = 0";
            largest: f64 = PAPER_LARGEST, Number(Range::Positive), "noise at t = 1";
            start: f64 = NOISE_STAGE, Number(Range::BelowOne), "time at which the corruption begins; 0 in runs saved before this key existed";
            corruption: CorruptionSection = CorruptionSection::default(), CorruptionKey, "the corruption";
        },
        /// score_sde's variance-exploding diffusion.
        Ve = "ve" {
            smallest: f64 = PAPER_SMALLEST, Number(Range::Positive), "noise at t = 0";
            largest: f64 = score_sde_largest(side), Number(Range::Positive), "noise at t = 1; 90 where data.size is 64 or more";
        },
        /// score_sde's variance-preserving diffusion.
        Vp = "vp" {
            centred: bool = true, Flag(), "images in [-1, 1], as in score_sde; false in runs saved before this key existed";
            alpha: Alpha = Alpha::LINEAR, AlphaKey, "how the signal falls: linear with beta_min and beta_max, or cosine with offset";
        },
        /// score_sde's sub-VP diffusion.
        SubVp = "sub-vp" {
            centred: bool = true, Flag(), "images in [-1, 1], as in score_sde; false in runs saved before this key existed";
            alpha: Alpha = Alpha::LINEAR, AlphaKey, "how the signal falls: linear with beta_min and beta_max, or cosine with offset";
        },
        /// Blurring diffusion (Hoogeboom and Salimans 2022).
        Blurring = "blurring",
    }
}

/// score_sde's largest noise: 50 for CIFAR-10, 90 for CelebA-64. `side` is that of the images, as far as it is
/// known: a recipe knows its `data.size`.
pub fn score_sde_largest(side: Option<usize>) -> f64 {
    if side.is_some_and(|side| side >= 64) { 90.0 } else { 50.0 }
}

impl PathSection {
    /// The corruption whose levels a schedule chooses, where there is one.
    pub fn corruption(&self) -> Option<&CorruptionSection> {
        match self {
            PathSection::TwoStage { corruption, .. } | PathSection::Simultaneous { corruption, .. } => Some(corruption),
            _ => None,
        }
    }

    /// The noise over time and when the corruption begins, where a schedule chooses its levels.
    pub fn timing(&self) -> Option<Timing> {
        match *self {
            PathSection::TwoStage { smallest, largest, noise_stage, .. } => {
                let noise = Noise::Geometric { smallest, largest, until: noise_stage };
                Some(Timing { noise, start: noise_stage })
            }
            PathSection::Simultaneous { smallest, largest, start, .. } => {
                Some(Timing { noise: Noise::Geometric { smallest, largest, until: 1.0 }, start })
            }
            _ => None,
        }
    }

    /// Whether C is a number times the identity at all times, as some samplers need it.
    pub fn is_scale(&self) -> bool {
        match self {
            PathSection::Blurring => false,
            path => path.corruption().is_none_or(|corruption| corruption.kind() == "fading"),
        }
    }

    pub(in crate::recipe) fn read(r: &Reader, side: Option<usize>) -> Self {
        let section = Self::read_keys(r, "two-stage", side);
        if let PathSection::TwoStage { smallest, largest, .. }
        | PathSection::Simultaneous { smallest, largest, .. }
        | PathSection::Ve { smallest, largest } = &section
            && largest < smallest
        {
            let key = if r.has("largest") { "largest" } else { "smallest" };
            let message = format!("noise falls from path.smallest = {smallest} to path.largest = {largest}");
            r.problem(key, message, "noise may not fall with time: give a largest of at least the smallest");
        }
        r.finish();
        section
    }

    pub(in crate::recipe) fn write(&self, w: &mut TomlWriter) {
        self.write_keys(w);
    }
}

/// `[path.corruption]`.
struct CorruptionKey;

impl RecipeKey<CorruptionSection> for CorruptionKey {
    fn read(&self, r: &Reader, key: &'static str, _: CorruptionSection) -> CorruptionSection {
        CorruptionSection::read(&r.table(key))
    }
    fn write(&self, w: &mut TomlWriter, _: &str, value: &CorruptionSection) {
        value.write(w);
    }
    fn expected(&self) -> String {
        "a section".to_owned()
    }
}

/// `alpha` with its numbers.
struct AlphaKey;

impl RecipeKey<Alpha> for AlphaKey {
    fn read(&self, r: &Reader, key: &'static str, usual: Alpha) -> Alpha {
        let (Alpha::Linear { beta_min, beta_max }, Alpha::Cosine { offset }) = (Alpha::LINEAR, Alpha::COSINE) else {
            return usual;
        };
        if r.choice(key, &[("linear", false), ("cosine", true)]) == Some(true) {
            return Alpha::Cosine { offset: r.number("offset", Range::BelowOne).unwrap_or(offset) };
        }
        let low = r.number("beta_min", Range::FromZero).unwrap_or(beta_min);
        let high = r.number("beta_max", Range::Positive).unwrap_or(beta_max);
        if high <= low {
            let message = format!("path.beta_max is {high}, path.beta_min {low}");
            let key = if r.has("beta_max") { "beta_max" } else { "beta_min" };
            r.problem(key, message, "give a beta_max above beta_min, such as 20");
        }
        Alpha::Linear { beta_min: low, beta_max: high }
    }

    fn write(&self, w: &mut TomlWriter, key: &str, alpha: &Alpha) {
        match alpha {
            Alpha::Linear { beta_min, beta_max } => {
                w.value(key, "linear");
                w.value("beta_min", beta_min);
                w.value("beta_max", beta_max);
            }
            Alpha::Cosine { offset } => {
                w.value(key, "cosine");
                w.value("offset", offset);
            }
        }
    }

    fn expected(&self) -> String {
        "linear or cosine".to_owned()
    }

    fn parts(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("alpha", ""),
            ("beta_min", " with alpha linear"),
            ("beta_max", " with alpha linear"),
            ("offset", " with alpha cosine"),
        ]
    }
}
