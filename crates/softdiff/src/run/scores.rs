//! What the checkpoints of a run scored, from its events.

use super::{Event, EventKind, Result, RunFolder};
use std::collections::BTreeMap;

/// A metric of the images that a checkpoint's weights make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Its value.
    pub value: f64,
    /// On how many images.
    pub images: u64,
}

impl RunFolder {
    /// The values of `metric` by step; none where the run has no events yet.
    pub fn scores(&self, metric: &str) -> Result<BTreeMap<u64, Score>> {
        let mut scores = BTreeMap::new();
        if !self.events().exists() {
            return Ok(scores);
        }
        for event in self.read_events()? {
            match event {
                Ok(Event { step, kind: EventKind::Evaluation { metric: found, value, images } }) => {
                    if found == metric {
                        scores.insert(step, Score { value, images });
                    }
                }
                Ok(_) => {}
                // A torn end is repaired when the stream is continued.
                Err(_) => break,
            }
        }
        Ok(scores)
    }
}
