//! What happens in a run, as one JSON object per line of `events.jsonl`.
//!
//! Events are functions of recipe, seed and step, without clock or process, so that a resumed run writes the very bytes
//! of an uninterrupted one. Who ran it and when is in `env.json`; the seconds trained are in each checkpoint.

use serde::{Deserialize, Serialize};

/// An event and the step it belongs to: the number of steps done when it happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Steps done.
    pub step: u64,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// Training began: the first line of every run, written once.
    Started {
        /// Hash of the resolved recipe.
        config_hash: String,
        /// Hash of the schedule.
        schedule_hash: String,
        /// Number of single weights.
        parameters: u64,
        /// Images per step.
        batch: u64,
        /// Steps to do.
        steps: u64,
        /// Ends of the time bins of `loss_by_time`, ascending to 1.
        time_bins: Vec<f64>,
    },
    /// Training steps, summed up since the last such event.
    Step {
        /// Images seen so far.
        images_seen: u64,
        /// Mean loss.
        #[serde(with = "number")]
        loss: f64,
        /// Mean loss by bin of t; null where no image fell.
        loss_by_time: Vec<Option<f64>>,
        /// Learning rate.
        rate: f64,
        /// Global norm of the gradient before clipping.
        #[serde(with = "number")]
        norm: f64,
    },
    /// A checkpoint was due and handed to the writer.
    Checkpoint {
        /// Its folder.
        name: String,
    },
    /// Images from fixed noise.
    Preview {
        /// Their file, from the run's folder.
        file: String,
    },
    /// A metric of the current weights.
    Evaluation {
        /// Its name.
        metric: String,
        /// Its value.
        #[serde(with = "number")]
        value: f64,
        /// On how many images.
        images: u64,
    },
    /// Something to look at.
    Warning {
        /// In one sentence.
        message: String,
    },
    /// The process stopped; removed when another one continues.
    Stopped {
        /// Why.
        reason: String,
        /// The checkpoint to continue from.
        checkpoint: Option<String>,
    },
}

/// JSON has no NaN and no infinity: these are written as strings.
mod number {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() { serializer.serialize_f64(*value) } else { serializer.serialize_str(&value.to_string()) }
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(f64),
        Text(String),
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        match Either::deserialize(deserializer)? {
            Either::Number(value) => Ok(value),
            Either::Text(text) => match text.as_str() {
                "NaN" => Ok(f64::NAN),
                "inf" => Ok(f64::INFINITY),
                "-inf" => Ok(f64::NEG_INFINITY),
                _ => Err(D::Error::custom(format!("{text:?} is not a number"))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_a_line_of_json() {
        let kinds = [
            EventKind::Started {
                config_hash: "ab".into(),
                schedule_hash: "cd".into(),
                parameters: 61_804_419,
                batch: 128,
                steps: 1_300_000,
                time_bins: vec![0.5, 1.0],
            },
            EventKind::Step {
                images_seen: u64::MAX,
                loss: 0.1 + 0.2,
                loss_by_time: vec![None, Some(1.0 / 3.0)],
                rate: 2e-4,
                norm: f64::INFINITY,
            },
            EventKind::Checkpoint { name: "step-000000007".into() },
            EventKind::Preview { file: "samples/preview-000000007.png".into() },
            EventKind::Evaluation { metric: "fid".into(), value: 2.2, images: 50_000 },
            EventKind::Warning { message: "line\nbreak \"quoted\"".into() },
            EventKind::Stopped { reason: "SIGTERM".into(), checkpoint: None },
        ];
        for kind in kinds {
            let event = Event { step: 7, kind };
            let line = serde_json::to_string(&event).unwrap();
            assert!(line.starts_with(r#"{"step":7,"event":""#) && !line.contains('\n'), "{line}");
            assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event, "{line}");
        }
    }

    #[test]
    fn a_loss_that_is_not_finite_is_a_string() {
        let kind = EventKind::Evaluation { metric: "fid".into(), value: f64::NAN, images: 1 };
        let line = serde_json::to_string(&Event { step: 1, kind }).unwrap();
        assert_eq!(line, r#"{"step":1,"event":"evaluation","metric":"fid","value":"NaN","images":1}"#);
        let Ok(Event { kind: EventKind::Evaluation { value, .. }, .. }) = serde_json::from_str(&line) else { panic!() };
        assert!(value.is_nan());
    }
}
