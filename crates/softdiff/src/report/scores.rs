//! Metrics of the checkpoints during training, such as FID or the held-out loss.

use super::{Chart, Figure, PageBlock, Records, Series};
use crate::run::EventKind;
use std::collections::BTreeMap;

impl Records {
    /// The metrics over training, a line for each; none if no checkpoint was scored.
    pub(super) fn scores(&self) -> Option<PageBlock> {
        let mut lines: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
        for event in &self.events {
            if let EventKind::Evaluation { metric, value, .. } = &event.kind {
                lines.entry(metric).or_default().push((event.step as f64, *value));
            }
        }
        let name = lines.keys().next()?.to_string();
        let chart = Chart {
            x: "training step".into(),
            y: if lines.len() == 1 { name } else { "metric".into() },
            series: lines.into_iter().map(|(name, points)| Series::new(name, points)).collect(),
            ..Chart::default()
        };
        let caption = "Metrics of the averaged weights at each checkpoint.";
        Some(PageBlock::Figure(Figure::chart("scores", caption, &chart)))
    }
}
