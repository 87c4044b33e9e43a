//! How far a long task is: a line that rewrites itself on a terminal, one plain line every 30 s elsewhere.
//!
//! Everything goes to standard error; a task that ends within a second shows nothing.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const ELSEWHERE: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_secs(1);

/// The progress of one task; may be updated from several threads.
pub struct Progress {
    task: &'static str,
    unit: &'static str,
    /// Measures the rate, and is drawn on a terminal.
    bar: ProgressBar,
    terminal: bool,
    /// When it is to be said next.
    next: Mutex<Instant>,
    /// What was done already when it began, which says nothing about the rate.
    before: usize,
}

impl Progress {
    /// Begins a task, such as `decoding`, counted in a unit, such as `images`.
    pub fn new(task: &'static str, unit: &'static str) -> Progress {
        let style = ProgressStyle::with_template("{wide_msg}").expect("a template");
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()).with_style(style);
        let terminal = std::io::stderr().is_terminal();
        let next = Mutex::new(Instant::now() + if terminal { SILENCE } else { ELSEWHERE });
        Progress { task, unit, bar, terminal, next, before: 0 }
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
        self.bar.set_position(done.saturating_sub(self.before) as u64);
        let now = Instant::now();
        // A poisoned lock would mean that printing panicked; then there is nothing to print to.
        let Ok(mut next) = self.next.lock() else { return };
        if now < *next {
            return;
        }
        let line = line(self.task, self.unit, (done, total), self.bar.per_sec()) + saying;
        if !self.terminal {
            *next = now + ELSEWHERE;
            eprintln!("{line}");
            return;
        }
        if self.bar.is_hidden() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        }
        self.bar.set_message(line);
    }

    /// Prints a line of its own, whatever the progress shows.
    pub fn say(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }
}

impl Drop for Progress {
    /// Leaves an empty line for what comes next.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
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

fn line(task: &str, unit: &str, (done, total): (usize, usize), rate: f64) -> String {
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
        let line = line("decoding", "images", (250, 1000), 125.0);
        assert_eq!(line, "decoding: 250 of 1000 images, 25 %, 125/s, 0:06 left");
        let slow = super::line("training", "steps", (100, 200), 2.0);
        assert_eq!(slow, "training: 100 of 200 steps, 50 %, 2.0/s, 0:50 left");
        assert_eq!(clock(Duration::from_secs(3 * 3600 + 62)), "3:01:02");
    }

    #[test]
    fn what_was_done_before_does_not_count_towards_the_rate() {
        let progress = Progress::new("training", "steps").continuing(1_000_000);
        for done in 0..20 {
            progress.update(1_000_000 + done, 2_000_000);
            std::thread::sleep(Duration::from_millis(5));
        }
        let rate = progress.bar.per_sec();
        assert!(rate > 0.0 && rate < 1000.0, "{rate}");
    }

    #[test]
    fn nothing_done_yet_is_no_division_by_zero() {
        assert!(line("x", "y", (0, 0), 0.0).contains("0 of 0"));
    }
}
