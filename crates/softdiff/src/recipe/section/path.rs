//! `[path]`: how the image is lost over time.

use super::CorruptionSection;
use crate::noise::{Alpha, NOISE_STAGE, Noise, PAPER_LARGEST, PAPER_SMALLEST};
use crate::recipe::reader::{Range, Reader};
use crate::recipe::writer::Writer;
use crate::schedule::Timing;

/// `[path]`, by `kind`.
///
/// | key | of kind | default | meaning |
/// |---|---|---|---|
/// | `kind` | | `"two-stage"` | `"two-stage"`, `"simultaneous"`, `"ve"`, `"vp"`, `"sub-vp"`, `"blurring"` |
/// | `smallest` | two-stage, simultaneous, ve | `0.01` | noise at t = 0 |
/// | `largest` | the same | `0.1`; ve `50`, or `90` where `data.size` is 64 or more | noise at t = 1 |
/// | `noise_stage` | two-stage | `0.18` | time in which only noise grows |
/// | `start` | simultaneous | `0.18` | time at which the corruption begins; `0` in runs saved before this key existed |
/// | `alpha` | vp, sub-vp | `"linear"` | `"linear"` or `"cosine"` |
/// | `centred` | vp, sub-vp | `true` | images in [-1, 1], as in score_sde; `false` in runs saved before this key existed |
/// | `beta_min`, `beta_max` | linear alpha | `0.1`, `20` | |
/// | `offset` | cosine alpha | `0.008` | |
/// | `[path.corruption]` | two-stage, simultaneous | blur | see [`CorruptionSection`] |
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum PathSection {
    TwoStage { smallest: f64, largest: f64, noise_stage: f64, corruption: CorruptionSection },
    Simultaneous { smallest: f64, largest: f64, start: f64, corruption: CorruptionSection },
    Ve { smallest: f64, largest: f64 },
    Vp { alpha: Alpha, centred: bool },
    SubVp { alpha: Alpha, centred: bool },
    Blurring,
}

/// score_sde's largest noise: 50 for CIFAR-10, 90 for CelebA-64. `side` is that of the images, as far as it is
/// known: a recipe knows its `data.size`.
pub fn score_sde_largest(side: Option<usize>) -> f64 {
    if side.is_some_and(|side| side >= 64) { 90.0 } else { 50.0 }
}

impl PathSection {
    /// The names of all kinds.
    pub const KINDS: [&str; 6] = ["two-stage", "simultaneous", "ve", "vp", "sub-vp", "blurring"];

    /// Its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            PathSection::TwoStage { .. } => "two-stage",
            PathSection::Simultaneous { .. } => "simultaneous",
            PathSection::Ve { .. } => "ve",
            PathSection::Vp { .. } => "vp",
            PathSection::SubVp { .. } => "sub-vp",
            PathSection::Blurring => "blurring",
        }
    }

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
        let kinds = Self::KINDS.map(|kind| (kind, kind));
        let kind = r.choice("kind", &kinds).unwrap_or("two-stage");
        let smallest = || r.number("smallest", Range::Positive).unwrap_or(PAPER_SMALLEST);
        let largest = |usual: f64| r.number("largest", Range::Positive).unwrap_or(usual);
        let centred = || r.flag("centred").unwrap_or(true);
        let corruption = || CorruptionSection::read(&r.table("corruption"));
        let section = match kind {
            "simultaneous" => PathSection::Simultaneous {
                smallest: smallest(),
                largest: largest(PAPER_LARGEST),
                start: r.number("start", Range::BelowOne).unwrap_or(NOISE_STAGE),
                corruption: corruption(),
            },
            "ve" => PathSection::Ve { smallest: smallest(), largest: largest(score_sde_largest(side)) },
            "vp" => PathSection::Vp { alpha: read_alpha(r), centred: centred() },
            "sub-vp" => PathSection::SubVp { alpha: read_alpha(r), centred: centred() },
            "blurring" => PathSection::Blurring,
            _ => PathSection::TwoStage {
                smallest: smallest(),
                largest: largest(PAPER_LARGEST),
                noise_stage: r.number("noise_stage", Range::Between).unwrap_or(NOISE_STAGE),
                corruption: corruption(),
            },
        };
        if let PathSection::TwoStage { smallest, largest, .. }
        | PathSection::Simultaneous { smallest, largest, .. }
        | PathSection::Ve { smallest, largest } = &section
            && largest < smallest
        {
            let key = if r.has("largest") { "largest" } else { "smallest" };
            let message = format!("noise falls from path.smallest = {smallest} to path.largest = {largest}");
            r.problem(key, message, "noise may not fall with time: give a largest of at least the smallest");
        }
        r.refuse(
            &format!("kind \"{kind}\""),
            &[
                ("corruption", "kind two-stage or simultaneous"),
                ("smallest", "kind two-stage, simultaneous or ve"),
                ("largest", "kind two-stage, simultaneous or ve"),
                ("noise_stage", "kind two-stage"),
                ("start", "kind simultaneous"),
                ("alpha", "kind vp or sub-vp"),
                ("centred", "kind vp or sub-vp"),
                ("beta_min", "kind vp or sub-vp with alpha linear"),
                ("beta_max", "kind vp or sub-vp with alpha linear"),
                ("offset", "kind vp or sub-vp with alpha cosine"),
            ],
        );
        r.finish();
        section
    }

    pub(in crate::recipe) fn write(&self, w: &mut Writer) {
        w.section("path");
        w.value("kind", self.kind());
        match self {
            PathSection::TwoStage { smallest, largest, noise_stage, .. } => {
                w.value("smallest", smallest);
                w.value("largest", largest);
                w.value("noise_stage", noise_stage);
            }
            PathSection::Simultaneous { smallest, largest, start, .. } => {
                w.value("smallest", smallest);
                w.value("largest", largest);
                w.value("start", start);
            }
            PathSection::Ve { smallest, largest } => {
                w.value("smallest", smallest);
                w.value("largest", largest);
            }
            PathSection::Vp { alpha, centred } | PathSection::SubVp { alpha, centred } => {
                w.value("centred", centred);
                write_alpha(w, alpha);
            }
            PathSection::Blurring => {}
        }
        if let Some(corruption) = self.corruption() {
            corruption.write(w);
        }
    }
}

fn read_alpha(r: &Reader) -> Alpha {
    let (Alpha::Linear { beta_min, beta_max }, Alpha::Cosine { offset }) = (Alpha::LINEAR, Alpha::COSINE) else {
        return Alpha::LINEAR;
    };
    match r.choice("alpha", &[("linear", false), ("cosine", true)]) {
        Some(true) => Alpha::Cosine { offset: r.number("offset", Range::BelowOne).unwrap_or(offset) },
        _ => {
            let low = r.number("beta_min", Range::FromZero).unwrap_or(beta_min);
            let high = r.number("beta_max", Range::Positive).unwrap_or(beta_max);
            if high <= low {
                let message = format!("path.beta_max is {high}, path.beta_min {low}");
                let key = if r.has("beta_max") { "beta_max" } else { "beta_min" };
                r.problem(key, message, "give a beta_max above beta_min, such as 20");
            }
            Alpha::Linear { beta_min: low, beta_max: high }
        }
    }
}

fn write_alpha(w: &mut Writer, alpha: &Alpha) {
    match alpha {
        Alpha::Linear { beta_min, beta_max } => {
            w.value("alpha", "linear");
            w.value("beta_min", beta_min);
            w.value("beta_max", beta_max);
        }
        Alpha::Cosine { offset } => {
            w.value("alpha", "cosine");
            w.value("offset", offset);
        }
    }
}
