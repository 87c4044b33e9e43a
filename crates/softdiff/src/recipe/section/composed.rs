//! `[[path.corruption.parts]]`: corruptions one after the other, each with levels of its own.

use super::CorruptionSection;
use crate::corruption::{Composed, Corruption, CorruptionError, Shape};
use crate::curve::{Curve, Interpolation};
use crate::recipe::reader::{Range, Reader};
use crate::recipe::writer::TomlWriter;
use crate::schedule::{Schedule, usual_candidates};
use softdiff_engine::HintedMessage;
use std::path::Path;

/// The most parts.
const MOST: usize = 8;

/// One of `[[path.corruption.parts]]`: the keys of a [`CorruptionSection`], and these.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `from`, `until` | `0`, `1` | the share of the path's progress in which its level runs from clean to full |
/// | `schedule` | `"even"` | its levels in between: `"even"` (in the logarithm for blurs), `"straight"`, or the name of a schedule.json that `softdiff schedule` has made for it |
/// | `knots` | `32` | how many, of an even schedule |
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct CorruptionPart {
    pub corruption: CorruptionSection,
    pub from: f64,
    pub until: f64,
    pub schedule: PartSchedule,
}

/// How the levels of a part run.
#[derive(Clone, Debug, PartialEq)]
pub enum PartSchedule {
    /// As the corruption asks for, in so many knots.
    Even {
        /// How many.
        knots: usize,
    },
    /// In a straight line.
    Straight,
    /// Through the knots of a schedule.json.
    File {
        /// Where it is.
        file: String,
    },
}

impl CorruptionPart {
    /// A corruption over all of the progress.
    pub fn new(corruption: CorruptionSection) -> Self {
        CorruptionPart { corruption, from: 0.0, until: 1.0, schedule: PartSchedule::Even { knots: 32 } }
    }

    fn build(&self, shape: Shape) -> Result<(Box<dyn Corruption>, Curve), CorruptionError> {
        let corruption = self.corruption.build(shape)?;
        let fail = |problem: HintedMessage| CorruptionError::PartLevels { name: corruption.name().to_owned(), problem };
        let levels = corruption.levels();
        let (knots, interpolation) = match &self.schedule {
            PartSchedule::Straight => (vec![levels.clean, levels.full], Interpolation::Linear),
            PartSchedule::Even { knots } => {
                let knots = usual_candidates(&*corruption, *knots).map_err(|error| fail(HintedMessage::of(error)))?;
                (knots, Interpolation::Linear)
            }
            PartSchedule::File { file } => {
                let schedule = Schedule::read(Path::new(file)).map_err(|error| fail(HintedMessage::of(error)))?;
                if !schedule.is_for(&*corruption) {
                    let made = format!("{file} was made for {} of {}", schedule.corruption, schedule.shape);
                    return Err(fail(format!("{made}, not for {} of {shape}", corruption.describe()).into()));
                }
                (schedule.knots, schedule.interpolation)
            }
        };
        let curve = Composed::curve(&*corruption, knots, interpolation, [self.from, self.until])?;
        Ok((corruption, curve))
    }
}

pub(super) fn build(parts: &[CorruptionPart], shape: Shape) -> Result<Box<dyn Corruption>, CorruptionError> {
    let parts = parts.iter().map(|part| part.build(shape)).collect::<Result<Vec<_>, _>>()?;
    Ok(Box::new(Composed::new(parts)?))
}

pub(super) fn read(r: &Reader) -> Vec<CorruptionPart> {
    let hint = "give two or more [[path.corruption.parts]], each with a kind";
    let parts: Vec<CorruptionPart> = r.tables("parts", MOST, hint).iter().map(read_part).collect();
    if parts.is_empty() {
        r.problem("parts", format!("{} is missing", r.full("parts")), hint);
    }
    parts
}

fn read_part(r: &Reader) -> CorruptionPart {
    let from = r.number("from", Range::BelowOne).unwrap_or(0.0);
    let until = r.number("until", Range::Unit).unwrap_or(1.0);
    if until <= from {
        let key = if r.has("until") { "until" } else { "from" };
        r.problem(key, format!("a part runs from {from} until {until}"), "give an until above from");
    }
    let mut even = false;
    let schedule = match r.text("schedule").as_deref() {
        Some("straight") => PartSchedule::Straight,
        Some(file) if file.ends_with(".json") => PartSchedule::File { file: file.to_owned() },
        other => {
            even = true;
            if let Some(word) = other.filter(|word| *word != "even") {
                let message = format!("{} is {}", r.full("schedule"), softdiff_data::quote::quote(word));
                r.problem("schedule", message, "give \"even\", \"straight\", or the name of a schedule.json");
            }
            PartSchedule::Even { knots: r.size("knots", 3..=4096).unwrap_or(32) }
        }
    };
    if !even {
        r.refuse("this schedule", &[("knots", "schedule \"even\"")]);
    }
    if r.is_word("kind", "composed") {
        r.problem("kind", "a part is itself composed", "list its parts here instead");
    }
    CorruptionPart { corruption: CorruptionSection::read(r), from, until, schedule }
}

pub(super) fn write(parts: &[CorruptionPart], w: &mut TomlWriter) {
    for part in parts {
        w.section("[path.corruption.parts]");
        part.corruption.write_keys(w);
        w.value("from", &part.from);
        w.value("until", &part.until);
        match &part.schedule {
            PartSchedule::Straight => w.value("schedule", "straight"),
            PartSchedule::File { file } => w.value("schedule", file),
            PartSchedule::Even { knots } => {
                w.value("schedule", "even");
                w.value("knots", knots);
            }
        }
    }
}
