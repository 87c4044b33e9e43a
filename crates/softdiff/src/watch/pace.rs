//! How fast a run goes and when its steps were done. Events have no clock; checkpoints have the seconds trained.

use crate::run::fs::read_up_to;
use crate::run::{RunFolder, RunSession};
use serde::Deserialize;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, UNIX_EPOCH};

/// Longest `state.json` that is read.
const LONGEST: u64 = 4 << 20;
/// How far back the pace is observed.
const WINDOW: Duration = Duration::from_secs(120);

/// Seconds of training by step, from the checkpoints that are there and were there.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    seconds: BTreeMap<u64, f64>,
    /// Names already read.
    read: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Elapsed {
    step: u64,
    elapsed_seconds: f64,
}

impl Clock {
    /// The clock of a run.
    pub fn of(folder: &RunFolder) -> Clock {
        let mut clock = Clock::default();
        clock.read(folder);
        clock
    }

    /// Reads checkpoints that are new. What cannot be read is left out: the clock is a note only.
    pub fn read(&mut self, folder: &RunFolder) {
        let names = folder.fs().list(&folder.checkpoints()).unwrap_or_default();
        for name in names.into_iter().filter(|name| name.starts_with("step-") && !name.contains(".tmp")) {
            if self.read.contains_key(&name) {
                continue;
            }
            let path = folder.checkpoints().join(&name).join("state.json");
            let bytes = read_up_to(folder.fs().as_ref(), &path, LONGEST).unwrap_or_default();
            let Ok(Elapsed { step, elapsed_seconds }) = serde_json::from_slice(&bytes) else { continue };
            if elapsed_seconds.is_finite() && elapsed_seconds >= 0.0 {
                self.seconds.insert(step, elapsed_seconds);
                self.read.insert(name, step);
            }
        }
    }

    /// The last step whose seconds of training are known, and those.
    pub fn last(&self) -> Option<(u64, f64)> {
        self.seconds.last_key_value().map(|(&step, &seconds)| (step, seconds))
    }

    /// Steps per second at the end, between the last two moments that are known.
    pub fn pace(&self) -> Option<f64> {
        let mut last = self.seconds.iter().rev();
        let (&step, &seconds) = last.next()?;
        let (&before, &earlier) = last.next().unwrap_or((&0, &0.0));
        Some((step - before) as f64 / (seconds - earlier)).filter(|pace| pace.is_finite() && *pace > 0.0)
    }

    /// Seconds trained after a step: exact at checkpoints, in proportion between and after them.
    pub fn seconds(&self, step: u64) -> Option<f64> {
        if let Some(seconds) = self.seconds.get(&step) {
            return Some(*seconds);
        }
        let (before, earlier) = self.seconds.range(..step).next_back().unwrap_or((&0, &0.0));
        match self.seconds.range(step..).next() {
            Some((after, later)) => {
                Some(earlier + (later - earlier) * (step - before) as f64 / (after - before).max(1) as f64)
            }
            None => self.pace().map(|pace| earlier + (step - before) as f64 / pace),
        }
    }

    /// When a step was done, in seconds since 1970: its session's beginning and the seconds trained in it.
    pub fn moment(&self, sessions: &[RunSession], step: u64) -> f64 {
        let session = sessions.iter().rev().find(|session| session.from_step < step).or(sessions.first());
        let Some(session) = session else { return self.seconds(step).unwrap_or(0.0) };
        let trained = self.seconds(step).zip(self.seconds(session.from_step)).map_or(0.0, |(at, from)| at - from);
        session.started_unix as f64 + trained.max(0.0)
    }
}

/// Steps per second since the last session began, by the time the events were last written: good enough until there is
/// a checkpoint or something was observed.
pub(super) fn pace_by_file(folder: &RunFolder, step: u64) -> Option<f64> {
    let session = folder.sessions().pop()?;
    let written = std::fs::metadata(folder.events()).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let seconds = written.as_secs_f64() - session.started_unix as f64;
    let steps = step.checked_sub(session.from_step)?;
    Some(steps as f64 / seconds).filter(|pace| pace.is_finite() && *pace > 0.0)
}

/// When steps were seen to be done, for as long as one looks.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Steps done at the first look: when they were done is not known.
    before: Option<u64>,
    seen: VecDeque<(Duration, u64)>,
}

impl Arrivals {
    /// At `now`, so many steps were done.
    pub(super) fn note(&mut self, now: Duration, step: u64) {
        let before = *self.before.get_or_insert(step);
        if self.seen.back().map_or(before, |&(_, last)| last) < step {
            self.seen.push_back((now, step));
        }
        // Two stay however old they are, so that rare events have a pace too.
        while self.seen.len() > 2 && self.seen.front().is_some_and(|&(then, _)| now.saturating_sub(then) > WINDOW) {
            self.seen.pop_front();
        }
    }

    /// Steps per second between the first and the last news.
    pub(super) fn pace(&self) -> Option<f64> {
        let (&(first, from), &(last, to)) = (self.seen.front()?, self.seen.back()?);
        Some((to - from) as f64 / (last - first).as_secs_f64()).filter(|pace| pace.is_finite() && *pace > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(knots: &[(u64, f64)]) -> Clock {
        Clock { seconds: knots.iter().copied().collect(), ..Clock::default() }
    }

    #[test]
    fn seconds_are_exact_at_checkpoints_and_in_proportion_elsewhere() {
        let clock = clock(&[(100, 50.0), (300, 250.0)]);
        let at: Vec<f64> = [0, 50, 100, 200, 300, 400].map(|step| clock.seconds(step).unwrap()).into();
        assert_eq!(at, [0.0, 25.0, 50.0, 150.0, 250.0, 350.0]);
        assert_eq!(clock.pace(), Some(1.0));
        assert_eq!((super::tests::clock(&[]).seconds(5), Clock::default().pace()), (None, None));
    }

    #[test]
    fn a_step_is_dated_within_its_session() {
        let process = serde_json::json!({ "started_unix": 1000, "build": "", "pid": 1, "host": "", "device": "",
            "threads": 1, "from_step": 0 });
        let first: RunSession = serde_json::from_value(process).unwrap();
        let second = RunSession { started_unix: 5000, from_step: 100, ..first.clone() };
        let clock = clock(&[(100, 50.0), (300, 250.0)]);
        let moments = [0, 100, 101, 300].map(|step| clock.moment(&[first.clone(), second.clone()], step));
        assert_eq!(moments, [1000.0, 1050.0, 5001.0, 5200.0]);
        assert_eq!(clock.moment(&[], 100), 50.0);
    }

    #[test]
    fn the_pace_observed_leaves_out_what_was_there_before_and_what_is_long_ago() {
        let mut arrivals = Arrivals::default();
        let mut note = |second: u64, step: u64| {
            arrivals.note(Duration::from_secs(second), step);
            arrivals.pace()
        };
        assert_eq!([note(0, 500), note(3, 510), note(4, 510)], [None; 3]);
        assert_eq!(note(8, 520), Some(2.0));
        assert_eq!(note(508, 530), Some(0.02));
        assert_eq!(note(600, 550), Some(20.0 / 92.0));
    }
}
