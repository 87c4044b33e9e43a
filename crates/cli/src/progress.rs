//! How far a long task is: a line that rewrites itself on a terminal, one plain line every 30 s elsewhere.
//!
//! Everything goes to standard error; a task that ends within a second shows nothing.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const ON_A_TERMINAL: Duration = Duration::from_millis(100);
const ELSEWHERE: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_secs(1);

/// The progress of one task; may be updated from several threads.
pub struct Progress {
    task: &'static str,
    unit: &'static str,
    start: Instant,
    terminal: bool,
    last: Mutex<Option<Instant>>,
    /// What was done already when it began, which says nothing about the rate.
    before: usize,
}

impl Progress {
    /// Begins a task, such as `decoding`, counted in a unit, such as `pictures`.
    pub fn new(task: &'static str, unit: &'static str) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        Progress { task, unit, start: Instant::now(), terminal, last: Mutex::new(None), before: 0 }
    }

    /// The same for a task of which so much was done before.
    pub fn continuing(mut self, before: usize) -> Progress {
        self.before = before;
        self
    }

    /// Tells how many of how many are done.
    pub fn update(&self, done: usize, total: usize) {
        self.update_saying(done, total, "");
    }

    /// The same, with something to say about the last one.
    pub fn update_saying(&self, done: usize, total: usize, saying: &str) {
        if crate::output::is_quiet() {
            return;
        }
        let (interval, silence) = if self.terminal { (ON_A_TERMINAL, SILENCE) } else { (ELSEWHERE, ELSEWHERE) };
        let now = Instant::now();
        // A poisoned lock would mean that printing panicked; then there is nothing to print to.
        let Ok(mut last) = self.last.lock() else { return };
        if now - self.start < silence || last.is_some_and(|last| now - last < interval) {
            return;
        }
        *last = Some(now);
        let line = line(self.task, self.unit, (self.before, done, total), now - self.start) + saying;
        let mut out = std::io::stderr().lock();
        // A closed standard error is no reason to stop.
        let _ = if self.terminal { write!(out, "\r\x1b[K{line}") } else { writeln!(out, "{line}") };
        let _ = out.flush();
    }
}

/// The progress of one task after another, each shown from its first update on.
#[derive(Default)]
pub struct Tasks(Mutex<Option<Progress>>);

impl Tasks {
    /// Tells how many of how many are done, and of what.
    pub fn update(&self, task: &'static str, unit: &'static str, done: usize, total: usize) {
        // As in `update_saying`.
        let Ok(mut current) = self.0.lock() else { return };
        if current.as_ref().is_none_or(|current| current.task != task) {
            *current = Some(Progress::new(task, unit).continuing(done));
        }
        match &*current {
            Some(progress) if done < total => progress.update(done, total),
            // The line of a finished task is removed.
            _ => *current = None,
        }
    }
}

impl Progress {
    /// Prints a line of its own, whatever the progress shows.
    pub fn say(&self, text: &str) {
        if self.terminal && self.last.lock().is_ok_and(|last| last.is_some()) {
            eprint!("\r\x1b[K");
        }
        eprintln!("{text}");
    }
}

impl Drop for Progress {
    /// Leaves an empty line for what comes next.
    fn drop(&mut self) {
        if self.terminal && self.last.lock().is_ok_and(|last| last.is_some()) {
            eprint!("\r\x1b[K");
        }
    }
}

fn line(task: &str, unit: &str, (before, done, total): (usize, usize, usize), elapsed: Duration) -> String {
    let rate = done.saturating_sub(before) as f64 / elapsed.as_secs_f64().max(1e-9);
    let percent = 100 * done / total.max(1);
    let left = Duration::from_secs_f64((total.saturating_sub(done) as f64 / rate.max(1e-9)).min(1e9));
    let digits = if rate < 10.0 { 1 } else { 0 };
    format!("{task}: {done} of {total} {unit}, {percent} %, {rate:.digits$}/s, {} left", clock(left))
}

/// Hours, minutes and seconds, without leading zeros of the first.
pub fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_count_share_rate_and_time_left() {
        let line = line("decoding", "pictures", (0, 250, 1000), Duration::from_secs(2));
        assert_eq!(line, "decoding: 250 of 1000 pictures, 25 %, 125/s, 0:06 left");
        let slow = super::line("training", "steps", (90, 100, 200), Duration::from_secs(5));
        assert_eq!(slow, "training: 100 of 200 steps, 50 %, 2.0/s, 0:50 left");
        assert_eq!(clock(Duration::from_secs(3 * 3600 + 62)), "3:01:02");
    }

    #[test]
    fn nothing_done_yet_is_no_division_by_zero() {
        assert!(line("x", "y", (0, 0, 0), Duration::ZERO).contains("0 of 0"));
    }
}
