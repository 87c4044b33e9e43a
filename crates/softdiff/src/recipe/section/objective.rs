//! `[objective]`: the loss.
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `kind` | `"soft"` | `"soft"`, `"look-ahead"`, `"clean"`, `"one-step"` or `"noise"` |
//! | `farthest` | `0.05` | of look-ahead: the largest step in time |
//! | `step` | `0.01` | of one-step: the step in time, one over a whole number |
//! | `mixture` | `0` | of soft and look-ahead: share of the clean loss that is mixed in, 0 to 1 |
//! | `weight` | `"inverse-variance"` | `"one"`, `"inverse-variance"`, `"balanced"`, `"inverse-fourth"` or `"min-snr"` |
//! | `most` | `5` | of min-snr: the largest weight |
//! | `parametrisation` | `"residual"` | `"residual"`, `"clean"`, or `"wiener"`: what the best linear estimate leaves open |
//! | `scale` | `"sigma"` | of residual and clean: `"sigma"`, `"one"` or `"inverse-sigma"` |

use super::PathSection;
use crate::noise::Alpha;
use crate::objective::{Head, Kind, Objective, OutputScale, Parametrisation, Precondition, Weight};
use crate::recipe::reader::{Range, Reader};
use crate::recipe::writer::Writer;

const KINDS: [&str; 5] = ["soft", "look-ahead", "clean", "one-step", "noise"];
const WEIGHTS: [&str; 5] = ["one", "inverse-variance", "balanced", "inverse-fourth", "min-snr"];
const PARAMETRISATIONS: [(&str, (Parametrisation, Precondition)); 3] = [
    ("residual", (Parametrisation::Residual, Precondition::None)),
    ("clean", (Parametrisation::Clean, Precondition::None)),
    ("wiener", (Parametrisation::Residual, Precondition::Wiener)),
];
const SCALES: [(&str, OutputScale); 3] =
    [("sigma", OutputScale::Sigma), ("one", OutputScale::One), ("inverse-sigma", OutputScale::InverseSigma)];

pub(in crate::recipe) fn read(r: &Reader, path: &PathSection) -> Objective {
    let kind_name = r.choice("kind", &KINDS.map(|kind| (kind, kind))).unwrap_or("soft");
    let kind = match kind_name {
        "look-ahead" => Kind::LookAhead { farthest: r.number("farthest", Range::Unit).unwrap_or(0.05) },
        "clean" => Kind::Clean,
        "one-step" => Kind::OneStep { step: read_step(r).unwrap_or(0.01) },
        "noise" => Kind::Noise,
        _ => Kind::Soft,
    };
    let weight_name = r.choice("weight", &WEIGHTS.map(|weight| (weight, weight))).unwrap_or("inverse-variance");
    let weight = match weight_name {
        "one" => Weight::One,
        "balanced" => Weight::Balanced,
        "inverse-fourth" => Weight::InverseFourth,
        "min-snr" => Weight::MinSnr { most: r.number("most", Range::Positive).unwrap_or(5.0) },
        _ => Weight::InverseVariance,
    };
    let (parametrisation, precondition) = r.choice("parametrisation", &PARAMETRISATIONS).unwrap_or_default();
    let head = Head { parametrisation, scale: r.choice("scale", &SCALES).unwrap_or_default() };
    let kind_words = format!("kind \"{kind_name}\"");
    r.refuse(&kind_words, &[("farthest", "kind look-ahead"), ("step", "kind one-step")]);
    r.refuse(&format!("weight \"{weight_name}\""), &[("most", "weight min-snr")]);
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
    let mixture = match kind {
        Kind::Soft | Kind::LookAhead { .. } => r.number("mixture", Range::Unit).unwrap_or(0.0),
        _ => 0.0,
    };
    r.refuse(&kind_words, &[("mixture", "kind soft or look-ahead")]);
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

pub(in crate::recipe) fn write(objective: &Objective, w: &mut Writer) {
    w.section("objective");
    match objective.kind {
        Kind::Soft => w.value("kind", "soft"),
        Kind::Clean => w.value("kind", "clean"),
        Kind::Noise => w.value("kind", "noise"),
        Kind::LookAhead { farthest } => {
            w.value("kind", "look-ahead");
            w.value("farthest", &farthest);
        }
        Kind::OneStep { step } => {
            w.value("kind", "one-step");
            w.value("step", &step);
        }
    }
    match objective.weight {
        Weight::One => w.value("weight", "one"),
        Weight::InverseVariance => w.value("weight", "inverse-variance"),
        Weight::Balanced => w.value("weight", "balanced"),
        Weight::InverseFourth => w.value("weight", "inverse-fourth"),
        Weight::MinSnr { most } => {
            w.value("weight", "min-snr");
            w.value("most", &most);
        }
    }
    w.word("parametrisation", &PARAMETRISATIONS, &(objective.head.parametrisation, objective.precondition));
    w.word("scale", &SCALES, &objective.head.scale);
    // Runs that were begun before there was this key keep their identity.
    if objective.mixture > 0.0 {
        w.value("mixture", &objective.mixture);
    }
}
