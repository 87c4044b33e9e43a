//! Training as seen on a terminal.

use super::estimate::FirstPace;
use crate::progress::Progress;
use softdiff::history::LiveEventFile;
use softdiff::run::{Event, EventKind, StopRequest};
use softdiff::train::Watcher;

/// Shows progress and events on standard error, and stops by signals.
pub struct Terminal {
    stop: StopRequest,
    quiet: bool,
    progress: Option<Progress>,
    loss: Option<f64>,
    tensorboard: Option<LiveEventFile>,
    pace: FirstPace,
}

impl Terminal {
    /// `quiet` shows warnings only.
    pub fn new(stop: StopRequest, quiet: bool) -> Terminal {
        Terminal { stop, quiet, progress: None, loss: None, tensorboard: None, pace: FirstPace::default() }
    }

    /// Also writes events for TensorBoard.
    pub fn with_tensorboard(self, file: Option<LiveEventFile>) -> Terminal {
        Terminal { tensorboard: file, ..self }
    }

    /// A line of its own.
    pub fn say(&self, text: &str) {
        if self.quiet {
            return;
        }
        match &self.progress {
            Some(progress) => progress.say(text),
            None => eprintln!("{text}"),
        }
    }
}

impl Watcher for Terminal {
    fn note(&mut self, message: &str) {
        match message.starts_with("warning:") {
            true => eprintln!("{message}"),
            false => self.say(message),
        }
    }

    fn step(&mut self, done: u64, steps: u64, loss: f64) {
        // A moving mean over some twenty steps: single batches jump about.
        let mean = self.loss.map_or(loss, |mean| mean + 0.05 * (loss - mean));
        self.loss = Some(mean);
        if let Some(estimate) = self.pace.estimate(done, steps) {
            self.say(&estimate);
        }
        let (done, steps) = (done as usize, steps as usize);
        if !self.quiet {
            let progress = self
                .progress
                .get_or_insert_with(|| Progress::new("training", "steps").continuing(done.saturating_sub(1)));
            progress.update_saying(done, steps, &format!(", loss {mean:.4}"));
        }
    }

    fn event(&mut self, event: &Event) {
        // A copy of the events that cannot be written is no reason to stop.
        if let Some(Err(error)) = self.tensorboard.as_mut().map(|file| file.add(event)) {
            self.tensorboard = None;
            eprintln!("warning: nothing more is written for TensorBoard: {error}");
        }
        match &event.kind {
            EventKind::Warning { message } => eprintln!("warning: step {}: {message}", event.step),
            EventKind::Evaluation { metric, value, images } => {
                self.say(&format!("step {}: {metric} {value:.4} on {images} images", event.step));
            }
            EventKind::Preview { file } => self.say(&format!("step {}: {file}", event.step)),
            _ => {}
        }
    }

    fn stop_request(&self) -> StopRequest {
        self.stop.clone()
    }
}
