//! Saving in the background: one thread, one slot.
//!
//! At most one state is being written, so memory is bounded; a second save waits for the first. An error is given to
//! the next call, whichever it is.

use super::error::{CheckpointError, Result};
use super::state::TrainingState;
use super::store::{Checkpoints, Saved};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

/// What to save.
#[derive(Debug)]
pub struct Save {
    /// The state, apart from the one that training goes on with.
    pub state: TrainingState,
    /// The metric's values by step so far.
    pub scores: BTreeMap<u64, f64>,
}

/// Writes checkpoints while training goes on.
#[derive(Debug)]
pub struct CheckpointWriter {
    /// None once the thread was asked to end.
    jobs: Option<Sender<Save>>,
    results: Receiver<Result<Saved>>,
    busy: bool,
    thread: Option<JoinHandle<()>>,
}

impl CheckpointWriter {
    /// Starts the thread.
    pub fn new(checkpoints: Checkpoints) -> Result<CheckpointWriter> {
        let (jobs, inbox) = channel::<Save>();
        let (outbox, results) = channel();
        let work = move || {
            for Save { state, scores } in inbox {
                let result = checkpoints.save(&state, &scores);
                // The state is dropped before the answer is sent: the receiver may need the memory.
                drop(state);
                if outbox.send(result).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("checkpoint".into()).spawn(work).map_err(|source| {
            CheckpointError::Io { action: "start a thread for", path: "checkpoints".into(), source }
        })?;
        Ok(CheckpointWriter { jobs: Some(jobs), results, busy: false, thread: Some(thread) })
    }

    /// Hands a state over, after waiting for the one before; gives what became of that one.
    ///
    /// When that one failed, the new one is not taken.
    pub fn save(&mut self, save: Save) -> Result<Option<Saved>> {
        let before = self.wait()?;
        let jobs = self.jobs.as_ref().ok_or(CheckpointError::WriterGone)?;
        jobs.send(save).map_err(|_| CheckpointError::WriterGone)?;
        self.busy = true;
        Ok(before)
    }

    /// What became of the last save if that is known by now; to be asked once per step.
    pub fn poll(&mut self) -> Result<Option<Saved>> {
        if !self.busy {
            return Ok(None);
        }
        match self.results.try_recv() {
            Err(TryRecvError::Empty) => Ok(None),
            Ok(result) => {
                self.busy = false;
                result.map(Some)
            }
            Err(TryRecvError::Disconnected) => Err(self.gone()),
        }
    }

    /// Waits for the save in progress, if any.
    pub fn wait(&mut self) -> Result<Option<Saved>> {
        if !self.busy {
            return Ok(None);
        }
        match self.results.recv() {
            Ok(result) => {
                self.busy = false;
                result.map(Some)
            }
            Err(_) => Err(self.gone()),
        }
    }

    fn gone(&mut self) -> CheckpointError {
        self.busy = false;
        CheckpointError::WriterGone
    }
}

impl Drop for CheckpointWriter {
    /// Finishes the save in progress. Call [`CheckpointWriter::wait`] first: here an error can only be printed.
    fn drop(&mut self) {
        if let Err(error) = self.wait() {
            eprintln!("error: {error}");
        }
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
