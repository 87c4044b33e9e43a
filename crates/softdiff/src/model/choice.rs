//! Which checkpoint of a run is opened.

use super::ModelError;
use crate::checkpoint::{Checkpoints, Identity, Retention, StoredCheckpoint};
use crate::run::RunFolder;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Which checkpoint of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckpointChoice {
    /// The best where one was scored and is kept (appendix, "Training details"), else the last.
    #[default]
    Usual,
    /// The best by the recipe's `checkpoint.metric`.
    Best,
    /// The newest.
    Last,
    /// The one after so many steps.
    Step(u64),
}

impl FromStr for CheckpointChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("best", _) => Ok(CheckpointChoice::Best),
            ("last", _) => Ok(CheckpointChoice::Last),
            (_, Ok(step)) => Ok(CheckpointChoice::Step(step)),
            _ => Err("expected best, last, or a step such as 20000".into()),
        }
    }
}

/// The checkpoint that was opened, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "choice", rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Chosen {
    /// The best of those that are kept.
    Best { step: u64, metric: String, value: f64, images: u64 },
    /// The newest.
    Last { step: u64 },
    /// The one asked for.
    Step { step: u64 },
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Chosen::Best { metric, value, images, .. } => {
                write!(f, "best checkpoint, {metric} {value:.4} on {images} images")
            }
            Chosen::Last { .. } => f.write_str("last checkpoint"),
            Chosen::Step { .. } => f.write_str("checkpoint asked for"),
        }
    }
}

/// Opens and verifies the checkpoint of a run.
pub(crate) fn find(
    folder: &RunFolder,
    metric: &str,
    retention: &Retention,
    choice: CheckpointChoice,
) -> Result<(StoredCheckpoint, Chosen), ModelError> {
    let none = || ModelError::NoCheckpoint(folder.root().into());
    if !folder.checkpoints().is_dir() {
        return Err(none());
    }
    let all = Checkpoints::open(folder.fs(), &folder.checkpoints(), Identity::default(), Retention::default())?;
    let steps = all.steps()?;
    if steps.is_empty() {
        return Err(none());
    }
    if let CheckpointChoice::Step(step) = choice {
        if !steps.contains(&step) {
            let there = steps.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            return Err(ModelError::NoSuchCheckpoint { run: folder.root().into(), step, there });
        }
        return Ok((all.get(step)?, Chosen::Step { step }));
    }
    if choice != CheckpointChoice::Last {
        let scores = folder.scores(metric)?;
        let values = scores.iter().map(|(step, score)| (*step, score.value)).collect();
        let best = retention.best(&steps, u64::MAX, &values);
        match best.and_then(|step| Some((step, scores.get(&step)?))) {
            Some((step, score)) => {
                let chosen = Chosen::Best { step, metric: metric.to_owned(), value: score.value, images: score.images };
                return Ok((all.get(step)?, chosen));
            }
            None if choice == CheckpointChoice::Best => return Err(ModelError::NoBest(folder.root().into())),
            None => {}
        }
    }
    let found = all.newest_valid()?;
    let newest = found.newest.ok_or_else(none)?;
    let step = newest.manifest().step;
    if let Some(damaged) = found.skipped.into_iter().next() {
        return Err(ModelError::NewestDamaged { problem: damaged.reason, whole: step });
    }
    Ok((newest, Chosen::Last { step }))
}
