//! Results with their protocol, and the comparison of two of them.

use super::{Memorisation, MetricError, Nearest, Protocol};
use crate::image::Quantise;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The first line of a result file.
pub const FORMAT: &str = "softdiff evaluation 1";

/// One number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The number itself.
    pub value: f64,
    /// What is known of its error: a standard error or deviation, as the metric's documentation says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// What else the metric has to say.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

impl Measured {
    /// A number without more.
    pub fn new(value: f64) -> Measured {
        Measured { value, error: None, details: Map::new() }
    }

    /// With its error.
    pub fn error(mut self, error: f64) -> Measured {
        self.error = Some(error);
        self
    }

    /// With something more to say.
    pub fn detail(mut self, name: &str, value: impl Into<Value>) -> Measured {
        self.details.insert(name.into(), value.into());
        self
    }
}

impl From<Memorisation> for Measured {
    fn from(sum: Memorisation) -> Measured {
        Measured::new(sum.share).detail("copies", sum.copies).detail("median_distance", sum.median_distance)
    }
}

/// How images were made, as `softdiff sample` writes it with them into an `.npz`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// The model's name.
    pub model: String,
    /// Which run it is of, by a hash of what the run was made from; none in files of versions that did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Training steps behind it.
    pub step: u64,
    /// Which checkpoint of its run, in words; none for a model that has one only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// Which of its weights.
    pub weights: String,
    /// The sampler.
    pub sampler: String,
    /// Its steps.
    pub steps: usize,
    /// Evaluations of the network per image, counted; for an adaptive sampler their mean.
    pub evaluations: usize,
    /// How the samples became bytes.
    #[serde(default)]
    pub quantise: Quantise,
    /// The seeds, such as `0..1000`.
    pub seeds: String,
    /// How far samples were guided by a weaker model; none where they were not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance: Option<f64>,
    /// Where that model was, if it was not the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guide: Option<String>,
    /// Keys of the recipe that were changed for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
}

impl Made {
    /// The sampler, and whether samples were guided.
    pub fn how(&self) -> String {
        match (self.guidance, &self.guide) {
            (None, _) => self.sampler.clone(),
            (Some(guidance), None) => format!("{}, guidance {guidance}", self.sampler),
            (Some(guidance), Some(guide)) => format!("{}, guidance {guidance} by {guide}", self.sampler),
        }
    }
}

/// All numbers of one evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Always `softdiff evaluation 1`.
    pub format: String,
    /// The program's version.
    pub version: String,
    /// How they were measured.
    pub protocol: Protocol,
    /// How the images were made, where their file says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<Made>,
    /// By name.
    pub results: BTreeMap<String, Measured>,
    /// What a reader should know before trusting them.
    pub warnings: Vec<String>,
    /// Where the network ran; it may change the last digits, not more.
    pub device: String,
    /// How long it took.
    pub seconds: f64,
    /// The nearest reference images of each generated one, where memorisation was measured; not part of a result file.
    #[serde(skip)]
    pub nearest: Vec<Nearest>,
}

impl Evaluation {
    /// Nothing measured yet.
    pub fn new(protocol: Protocol, device: String) -> Evaluation {
        let (format, version) = (FORMAT.into(), env!("CARGO_PKG_VERSION").into());
        let (results, warnings) = (BTreeMap::new(), vec![]);
        Evaluation { format, version, protocol, made: None, results, warnings, device, seconds: 0.0, nearest: vec![] }
    }
}

/// One metric of two results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Its name.
    pub metric: String,
    /// In the first result.
    pub left: f64,
    /// In the second.
    pub right: f64,
}

/// The metrics that two results have in common, if they were measured in the same way.
pub fn compare(left: &Evaluation, right: &Evaluation) -> Result<Vec<Comparison>, MetricError> {
    let common: Vec<&str> =
        left.results.keys().filter(|name| right.results.contains_key(*name)).map(String::as_str).collect();
    if common.is_empty() {
        return Err(MetricError::NothingInCommon);
    }
    if let Some((field, left, right)) = left.protocol.difference(&right.protocol, &common) {
        return Err(MetricError::Protocols { field, left, right });
    }
    let value = |evaluation: &Evaluation, name: &str| evaluation.results[name].value;
    Ok(common.iter().map(|&m| Comparison { metric: m.into(), left: value(left, m), right: value(right, m) }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::ImageSetInfo;
    use serde_json::json;

    fn result(seed: u64, source: &str, preset: &str) -> Evaluation {
        let protocol = Protocol {
            images: ImageSetInfo { source: source.into(), hash: source.into(), count: 100, ..ImageSetInfo::default() },
            reference: ImageSetInfo { source: "r".into(), hash: "h".into(), count: 200, ..ImageSetInfo::default() },
            quantisation: "8 bits".into(),
            network: "n".into(),
            preset: preset.into(),
            options: [("kid".to_string(), json!({ "seed": seed }))].into(),
        };
        let mut evaluation = Evaluation::new(protocol, "cpu".into());
        evaluation.results.insert("fid".into(), Measured::new(3.0).error(0.5).detail("x", 1));
        evaluation
    }

    #[test]
    fn results_of_different_pictures_compare_and_unlike_protocols_are_named() {
        let (a, b) = (result(0, "a", "p"), result(0, "b", "p"));
        assert_eq!(compare(&a, &b).unwrap().len(), 1);
        // The seed of a metric that is not compared does not matter.
        let mut other_seed = result(1, "b", "p");
        assert!(compare(&a, &other_seed).is_ok());
        let mut with_kid = a.clone();
        for evaluation in [&mut with_kid, &mut other_seed] {
            evaluation.results.insert("kid".into(), Measured::new(0.1));
        }
        let refused = compare(&with_kid, &other_seed).unwrap_err().to_string();
        assert!(refused.contains("options.kid.seed is 0 in one and 1 in the other"), "{refused}");
        let refused = compare(&a, &result(0, "a", "q")).unwrap_err().to_string();
        assert!(refused.contains("preset is p in one and q"), "{refused}");
    }

    #[test]
    fn a_result_is_read_as_it_was_written() {
        let evaluation = result(3, "a", "p");
        let text = serde_json::to_string(&evaluation).unwrap();
        assert_eq!(serde_json::from_str::<Evaluation>(&text).unwrap(), evaluation);
    }
}
