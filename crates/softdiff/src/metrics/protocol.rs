//! How a number was measured: everything that must be equal before two numbers may be compared.

use super::MetricError;
use crate::data::{Dataset, Split, Transform};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What a set of images is, or the statistics that stand for one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImageSetInfo {
    /// The name of its file or folder.
    pub source: String,
    /// A hash of all pixels and labels after crop and resize, or of the statistics.
    pub hash: String,
    /// How many, where known.
    pub count: usize,
    /// Width, height and channels; zeros for statistics, which do not say.
    pub size: [usize; 3],
    /// `train`, `test` or `all`.
    pub split: String,
    /// The part of each image that was kept.
    pub crop: String,
    /// `none`, or the method and the size.
    pub resize: String,
}

impl ImageSetInfo {
    /// Describes a loaded set.
    pub fn of(dataset: &Dataset, source: &str, split: Split, transform: &Transform) -> ImageSetInfo {
        ImageSetInfo {
            source: source.into(),
            hash: dataset.hash().to_string(),
            count: dataset.len(),
            size: [dataset.width(), dataset.height(), dataset.channels()],
            split: match split {
                Split::Train => "train",
                Split::Test => "test",
                Split::All => "all",
            }
            .into(),
            crop: transform.crop.to_string(),
            resize: match transform.size {
                Some((width, height)) => format!("antialiased bilinear to {width}x{height}"),
                None => "none".into(),
            },
        }
    }

    /// Refuses images of different sizes.
    pub(super) fn check_sizes(left: [usize; 3], right: [usize; 3]) -> Result<(), MetricError> {
        let text = |size: [usize; 3]| size.map(|side| side.to_string()).join(" x ");
        if left == right { Ok(()) } else { Err(MetricError::Sizes { left: text(left), right: text(right) }) }
    }
}

/// Everything that decides the numbers besides the generated images themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Protocol {
    /// The generated images.
    pub images: ImageSetInfo,
    /// What they are compared with.
    pub reference: ImageSetInfo,
    /// How samples are stored: 8 bits, as every image file has them.
    pub quantisation: String,
    /// The network and its hash; empty where no metric needs one.
    pub network: String,
    /// How images come to the network's input; empty where no metric needs it.
    pub preset: String,
    /// The options of each metric, seeds among them.
    pub options: BTreeMap<String, Value>,
}

/// Fields that may differ between comparable results: they say which images were measured, not how.
const FREE: [&str; 3] = ["images.source", "images.hash", "reference.source"];

impl Protocol {
    /// Every field by its whole name, such as `images.count`.
    pub fn fields(&self) -> BTreeMap<String, String> {
        let mut fields = BTreeMap::new();
        flatten("", &serde_json::to_value(self).expect("strings and numbers are JSON"), &mut fields);
        fields
    }

    /// The first field in which two protocols differ and must not, with both values. Options count only for `metrics`.
    pub fn difference(&self, other: &Protocol, metrics: &[&str]) -> Option<(String, String, String)> {
        let flat = |protocol: &Protocol| {
            let mut fields = protocol.fields();
            fields.retain(|name, _| {
                let option = name.strip_prefix("options.").map(|rest| rest.split('.').next().unwrap_or(rest));
                !FREE.contains(&name.as_str()) && option.is_none_or(|option| metrics.contains(&option))
            });
            fields
        };
        let (left, right) = (flat(self), flat(other));
        let absent = || "absent".to_string();
        left.keys().chain(right.keys()).find(|&name| left.get(name) != right.get(name)).map(|name| {
            let value = |fields: &BTreeMap<String, String>| {
                fields.get(name).filter(|text| !text.is_empty()).cloned().unwrap_or_else(absent)
            };
            (name.clone(), value(&left), value(&right))
        })
    }
}

/// `a.b` for the field b of a.
fn flatten(prefix: &str, value: &Value, out: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                flatten(&name, value, out);
            }
        }
        Value::String(text) => {
            out.insert(prefix.into(), text.clone());
        }
        other => {
            out.insert(prefix.into(), other.to_string());
        }
    }
}
