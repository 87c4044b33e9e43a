//! Progress on standard error: a line that renews itself on a terminal, one plain line every 30 seconds elsewhere.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The progress of one piece of work.
pub struct Progress {
    what: &'static str,
    started: Instant,
    shown: Mutex<Instant>,
    terminal: bool,
}

impl Progress {
    /// Begins now.
    pub fn new(what: &'static str) -> Self {
        let now = Instant::now();
        Progress { what, started: now, shown: Mutex::new(now), terminal: std::io::stderr().is_terminal() }
    }

    /// Tells how far it is.
    pub fn update(&self, done: usize, total: usize) {
        let pause = if self.terminal { Duration::from_millis(100) } else { Duration::from_secs(30) };
        let Ok(mut shown) = self.shown.try_lock() else { return };
        if shown.elapsed() < pause && !(self.terminal && done == total) {
            return;
        }
        *shown = Instant::now();
        let spent = self.started.elapsed().as_secs_f64();
        let left = spent * (total - done) as f64 / done.max(1) as f64;
        let (start, end) = if self.terminal { ("\r", "\x1b[K") } else { ("", "\n") };
        let line = format!("{start}{}: {done} of {total}, {spent:.0} s, about {left:.0} s left{end}", self.what);
        // Progress that cannot be shown is no reason to stop.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }

    /// Clears the line.
    pub fn finish(&self) {
        if self.terminal {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}
