//! What happened in a run, for other programs: tables (CSV) and event files of TensorBoard.

mod csv;
mod live;
mod protobuf;
mod record_file;
mod tensorboard;

pub use csv::{csv_table, evaluations_csv, metrics_csv, steps_csv};
pub use live::LiveEventFile;
pub use tensorboard::{event_file_name, tensorboard};

use crate::run::{Event, EventKind, Result, RunFolder, RunSession};
use crate::watch::Clock;

/// The records of a run, finished or not.
pub struct History {
    folder: RunFolder,
    events: Vec<Event>,
    sessions: Vec<RunSession>,
    clock: Clock,
    bins: Vec<f64>,
}

impl History {
    /// Reads all events so far; a last line that is not complete yet is left out.
    pub fn read(folder: &RunFolder) -> Result<History> {
        folder.refuse_links()?;
        let events: Vec<Event> = folder.read_events()?.collect::<Result<_>>()?;
        let bins = events.iter().find_map(|event| match &event.kind {
            EventKind::Started { time_bins, .. } => Some(time_bins.clone()),
            _ => None,
        });
        let (sessions, clock) = (folder.sessions(), Clock::of(folder));
        Ok(History { folder: folder.clone(), events, sessions, clock, bins: bins.unwrap_or_default() })
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether nothing happened yet.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The bins of t by their two ends, such as `0.1-0.2`, at least as many as `count`.
    fn bins(&self, count: usize) -> Vec<String> {
        let ends = (0..self.bins.len().max(count)).map(|bin| self.bins.get(bin).copied());
        let mut from = Some(0.0);
        let name = |(bin, end): (usize, Option<f64>)| match (std::mem::replace(&mut from, end), end) {
            (Some(from), Some(to)) => format!("{from}-{to}"),
            _ => format!("bin-{bin}"),
        };
        ends.enumerate().map(name).collect()
    }

    /// Bins of the loss by time, as far as any event has them.
    fn bin_names(&self) -> Vec<String> {
        let count = |event: &Event| match &event.kind {
            EventKind::Step { loss_by_time, .. } => loss_by_time.len(),
            _ => 0,
        };
        self.bins(self.events.iter().map(count).max().unwrap_or(0))
    }
}
