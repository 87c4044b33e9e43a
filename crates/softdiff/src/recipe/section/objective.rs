//! `[objective]`: the loss.

use super::PathSection;
use crate::noise::Alpha;
use crate::objective::{Head, Kind, Objective, OutputScale, Parametrisation, Precondition, Weight};
use crate::recipe::keys::{Number, RecipeKey, Word, section};
use crate::recipe::reader::{Range, Reader, either};
use crate::recipe::writer::TomlWriter;

const PARAMETRISATIONS: [(&str, (Parametrisation, Precondition)); 3] = [
    ("residual", (Parametrisation::Residual, Precondition::None)),
    ("clean", (Parametrisation::Clean, Precondition::None)),
    ("wiener", (Parametrisation::Residual, Precondition::Wiener)),
];
const SCALES: [(&str, OutputScale); 3] =
    [("sigma", OutputScale::Sigma), ("one", OutputScale::One), ("inverse-sigma", OutputScale::InverseSigma)];

section! {
    /// `[objective]`, as it is written; [`Objective`] as it is computed.
    pub struct ObjectiveSection in "objective" () {
        kind: Kind = Kind::Soft, KindKey, "the loss; look-ahead has farthest (0.05), the largest step in time, one-step has step (0.01), one over a whole number";
        weight: Weight = Weight::InverseVariance, WeightKey, "of the loss over time; min-snr has most (5), the largest weight";
        parametrisation: (Parametrisation, Precondition) = Default::default(), Word(&PARAMETRISATIONS), "what the network predicts; wiener: what the best linear estimate leaves open";
        scale: OutputScale = OutputScale::Sigma, Word(&SCALES), "of residual and clean: factor of the output";
        mixture: f64 = 0.0, Number(Range::Unit), "of soft and look-ahead: share of the clean loss that is mixed in", unless_default;
    }
}

/// `kind` with its number.
struct KindKey;

impl RecipeKey<Kind> for KindKey {
    fn read(&self, r: &Reader, key: &'static str, _: Kind) -> Kind {
        let name = r.choice(key, &KINDS.map(|kind| (kind, kind))).unwrap_or("soft");
        let kind = match name {
            "look-ahead" => Kind::LookAhead { farthest: r.number("farthest", Range::Unit).unwrap_or(0.05) },
            "clean" => Kind::Clean,
            "one-step" => Kind::OneStep { step: read_step(r).unwrap_or(0.01) },
            "noise" => Kind::Noise,
            _ => Kind::Soft,
        };
        let mut owners = vec![("farthest", "kind look-ahead"), ("step", "kind one-step")];
        if !matches!(kind, Kind::Soft | Kind::LookAhead { .. }) {
            owners.push(("mixture", "kind soft or look-ahead"));
        }
        r.refuse(&format!("kind \"{name}\""), &owners);
        kind
    }

    fn write(&self, w: &mut TomlWriter, key: &str, kind: &Kind) {
        w.value(key, kind_name(kind));
        match kind {
            Kind::LookAhead { farthest } => w.value("farthest", farthest),
            Kind::OneStep { step } => w.value("step", step),
            Kind::Soft | Kind::Clean | Kind::Noise => {}
        }
    }

    fn expected(&self) -> String {
        either(&KINDS)
    }
}

const KINDS: [&str; 5] = ["soft", "look-ahead", "clean", "one-step", "noise"];

fn kind_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Soft => "soft",
        Kind::LookAhead { .. } => "look-ahead",
        Kind::Clean => "clean",
        Kind::OneStep { .. } => "one-step",
        Kind::Noise => "noise",
    }
}

/// `weight` with its number.
struct WeightKey;

impl RecipeKey<Weight> for WeightKey {
    fn read(&self, r: &Reader, key: &'static str, _: Weight) -> Weight {
        let name = r.choice(key, &WEIGHTS.map(|weight| (weight, weight))).unwrap_or("inverse-variance");
        let weight = match name {
            "one" => Weight::One,
            "balanced" => Weight::Balanced,
            "inverse-fourth" => Weight::InverseFourth,
            "min-snr" => Weight::MinSnr { most: r.number("most", Range::Positive).unwrap_or(5.0) },
            _ => Weight::InverseVariance,
        };
        r.refuse(&format!("weight \"{name}\""), &[("most", "weight min-snr")]);
        weight
    }

    fn write(&self, w: &mut TomlWriter, key: &str, weight: &Weight) {
        match weight {
            Weight::One => w.value(key, "one"),
            Weight::InverseVariance => w.value(key, "inverse-variance"),
            Weight::Balanced => w.value(key, "balanced"),
            Weight::InverseFourth => w.value(key, "inverse-fourth"),
            Weight::MinSnr { most } => {
                w.value(key, "min-snr");
                w.value("most", most);
            }
        }
    }

    fn expected(&self) -> String {
        either(&WEIGHTS)
    }
}

const WEIGHTS: [&str; 5] = ["one", "inverse-variance", "balanced", "inverse-fourth", "min-snr"];

pub(in crate::recipe) fn read(r: &Reader, path: &PathSection) -> Objective {
    let section = ObjectiveSection::read_keys(r, ObjectiveSection::defaults());
    let ObjectiveSection { kind, weight, parametrisation: (parametrisation, precondition), scale, mixture } = section;
    let head = Head { parametrisation, scale };
    let kind_words = format!("kind \"{}\"", kind_name(&kind));
    if weight == Weight::Balanced && !matches!(kind, Kind::Soft | Kind::LookAhead { .. }) {
        let message = format!("objective.weight \"balanced\" is not for {kind_words}");
        r.problem("weight", message, "choose kind soft or look-ahead, or weight inverse-variance");
    }
    if precondition == Precondition::Wiener {
        if matches!(kind, Kind::Noise | Kind::OneStep { .. }) {
            let message = format!("objective.parametrisation \"wiener\" is not for {kind_words}");
            r.problem("parametrisation", message, "choose kind soft, look-ahead or clean, or another parametrisation");
        }
        if head.scale != OutputScale::Sigma {
            let message = "objective.scale has no effect with parametrisation \"wiener\"";
            r.problem("scale", message, "leave it out, or choose parametrisation residual or clean");
        }
    }
    if kind == Kind::Noise && !keeps_some_signal(path) {
        let message = "objective.kind \"noise\": on this path no clean image follows from the noise";
        let hint =
            "give path.kind ve, or vp or sub-vp with alpha linear; or objective.kind soft, which suits every path";
        r.problem("kind", message, hint);
    }
    r.finish();
    Objective { kind, weight, head, precondition, mixture }
}

/// Whether `C = alpha I` with alpha above 0 at all times, so that `x_0 = (x_t - sigma eta) / alpha`.
fn keeps_some_signal(path: &PathSection) -> bool {
    match path {
        PathSection::Ve { .. } => true,
        PathSection::Vp { alpha, .. } | PathSection::SubVp { alpha, .. } => matches!(alpha, Alpha::Linear { .. }),
        _ => false,
    }
}

/// A step of which a whole number make up the path, as IHDM's sampler takes them.
fn read_step(r: &Reader) -> Option<f64> {
    let step = r.number("step", Range::Unit)?;
    let steps = (1.0 / step).round();
    if (step * steps - 1.0).abs() < 1e-9 {
        return Some(step);
    }
    let message = format!("objective.step is {step}: no whole number of such steps leads from time 1 to 0");
    r.problem("step", message, "give one over a whole number, such as 0.01 or 0.005");
    None
}

pub(in crate::recipe) fn write(objective: &Objective, w: &mut TomlWriter) {
    let Objective { kind, weight, head, precondition, mixture } = *objective;
    let parametrisation = (head.parametrisation, precondition);
    ObjectiveSection { kind, weight, parametrisation, scale: head.scale, mixture }.write_keys(w, &[]);
}
