//! A run as it is now, finished or not, for those who look on. Nothing of it is written or locked.

mod pace;
mod snapshot;
mod state;

pub use pace::Clock;
pub use snapshot::{Best, LossPoint, Snapshot, StepNote, Throughput};
pub use state::RunState;

use crate::run::{Event, EventKind, Follower, Result, RunFolder};
use pace::Arrivals;
use std::collections::BTreeMap;
use std::time::Duration;

/// Warnings that are kept.
const WARNINGS: usize = 100;

/// Looks at a run again and again.
#[derive(Debug)]
pub struct Watch {
    folder: RunFolder,
    follower: Follower,
    clock: Clock,
    arrivals: Arrivals,
    seen: EventSummary,
}

/// What the events said so far.
#[derive(Clone, Debug, Default)]
struct EventSummary {
    step: u64,
    started: Option<EventKind>,
    last: Option<EventKind>,
    losses: Vec<(u64, f64)>,
    evaluations: BTreeMap<String, Best>,
    warnings: Vec<StepNote>,
    warned: u64,
    preview: Option<StepNote>,
    checkpoint: Option<StepNote>,
    stopped: Option<String>,
}

impl Watch {
    /// Of the run in a folder.
    pub fn new(folder: &RunFolder) -> Watch {
        let (follower, clock) = (Follower::new(folder), Clock::default());
        Watch { folder: folder.clone(), follower, clock, arrivals: Arrivals::default(), seen: EventSummary::default() }
    }

    /// Looks; `now` counts from any moment, always the same one.
    pub fn look(&mut self, now: Duration) -> Result<Snapshot> {
        self.folder.refuse_links()?;
        let news = self.follower.look()?;
        if news.anew {
            (self.seen, self.arrivals) = (EventSummary::default(), Arrivals::default());
        }
        news.events.into_iter().for_each(|event| self.seen.add(event));
        self.clock.read(&self.folder);
        self.arrivals.note(now, self.seen.step);
        Ok(self.snapshot())
    }

    /// Mean loss and its step, event by event.
    pub fn losses(&self) -> &[(u64, f64)] {
        &self.seen.losses
    }
}

impl EventSummary {
    fn add(&mut self, Event { step, kind }: Event) {
        self.step = step;
        self.stopped = None;
        match kind {
            EventKind::Started { .. } => self.started = Some(kind),
            EventKind::Step { loss, .. } => {
                self.losses.push((step, loss));
                self.last = Some(kind);
            }
            EventKind::Checkpoint { name } => self.checkpoint = Some(StepNote { step, text: name }),
            EventKind::Preview { file } => self.preview = Some(StepNote { step, text: file }),
            EventKind::Evaluation { metric, value, .. } => {
                let best = self.evaluations.entry(metric).or_insert(Best { step, value, lowest: value, at: step });
                (best.step, best.value) = (step, value);
                if value < best.lowest || best.lowest.is_nan() {
                    (best.lowest, best.at) = (value, step);
                }
            }
            EventKind::Warning { message } => {
                self.warned += 1;
                self.warnings.push(StepNote { step, text: message });
                self.warnings.drain(..self.warnings.len().saturating_sub(WARNINGS));
            }
            EventKind::Stopped { reason, .. } => self.stopped = Some(reason),
        }
    }
}
