//! What a run is doing.

use crate::run::Presence;
use serde::Serialize;
use std::fmt;

/// What a run is doing, as far as it is known from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "reason", rename_all = "snake_case")]
pub enum RunState {
    /// A process works on it and has done no step yet.
    Preparing,
    /// A process trains it.
    Training,
    /// All steps are done.
    Finished,
    /// It stopped in order, and why.
    Stopped(String),
    /// Its process ended without a word.
    Interrupted,
    /// A process of another machine had it last; whether it still runs is not known here.
    Elsewhere,
}

impl RunState {
    /// The state of a run after `step` of `steps`, whose writer is `presence`.
    pub(super) fn of(presence: Presence, stopped: Option<&str>, step: u64, steps: Option<u64>) -> RunState {
        let finished = steps.is_some_and(|steps| step >= steps);
        match (presence, stopped) {
            (Presence::Alive, _) if finished => RunState::Finished,
            // The event of the earlier process is cut once the next one begins.
            (Presence::Alive, _) if step == 0 => RunState::Preparing,
            (Presence::Alive, None) => RunState::Training,
            (Presence::Alive, Some(_)) => RunState::Preparing,
            (_, Some(reason)) => RunState::Stopped(reason.into()),
            _ if finished => RunState::Finished,
            (Presence::Unknown, None) => RunState::Elsewhere,
            (Presence::Absent | Presence::Dead, None) => RunState::Interrupted,
        }
    }

    /// Whether nothing more will come of itself.
    pub fn is_over(&self) -> bool {
        matches!(self, RunState::Finished | RunState::Stopped(_) | RunState::Interrupted)
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunState::Preparing => f.write_str("preparing"),
            RunState::Training => f.write_str("training"),
            RunState::Finished => f.write_str("finished"),
            RunState::Stopped(reason) => write!(f, "stopped: {reason}"),
            RunState::Interrupted => f.write_str("not running; the same command again continues it"),
            RunState::Elsewhere => f.write_str("written from another machine"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_follows_from_writer_events_and_steps() {
        let of = |presence, stopped, step| RunState::of(presence, stopped, step, Some(10));
        assert_eq!(of(Presence::Alive, None, 0), RunState::Preparing);
        assert_eq!(of(Presence::Alive, None, 3), RunState::Training);
        assert_eq!(of(Presence::Alive, Some("SIGTERM"), 3), RunState::Preparing);
        assert_eq!(of(Presence::Absent, Some("SIGTERM"), 3), RunState::Stopped("SIGTERM".into()));
        assert_eq!(of(Presence::Dead, None, 3), RunState::Interrupted);
        assert_eq!(of(Presence::Unknown, None, 3), RunState::Elsewhere);
        assert_eq!(of(Presence::Unknown, None, 10), RunState::Finished);
        assert_eq!(RunState::of(Presence::Absent, None, 0, None), RunState::Interrupted);
    }
}
