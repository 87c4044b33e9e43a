//! How far work is, shown by `softdiff._progress.Bar`.

use crate::worker::Worker;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The least time between two updates.
const PAUSE: Duration = Duration::from_millis(100);

/// A progress bar, or nothing.
pub struct Progress {
    bar: Option<Arc<Py<PyAny>>>,
    updated: Mutex<Option<Instant>>,
}

impl Progress {
    /// A bar where it is asked for.
    pub fn new(py: Python<'_>, wanted: bool) -> PyResult<Progress> {
        let bar = match wanted {
            true => Some(Arc::new(py.import("softdiff._progress")?.getattr("Bar")?.call0()?.unbind())),
            false => None,
        };
        Ok(Progress { bar, updated: Mutex::new(None) })
    }

    /// So many of so many units of a task are done.
    pub fn update(&self, worker: &Worker, task: &'static str, unit: &'static str, (done, total): (usize, usize)) {
        self.update_saying(worker, task, unit, (done, total), String::new);
    }

    /// The same, with something to say about the last one.
    pub fn update_saying(
        &self,
        worker: &Worker,
        task: &'static str,
        unit: &'static str,
        (done, total): (usize, usize),
        saying: impl FnOnce() -> String,
    ) {
        let Some(bar) = &self.bar else { return };
        let mut updated = self.updated.lock().unwrap_or_else(PoisonError::into_inner);
        if done < total && updated.is_some_and(|at| at.elapsed() < PAUSE) {
            return;
        }
        *updated = Some(Instant::now());
        let (bar, saying) = (bar.clone(), saying());
        worker.post(move |py| bar.call_method1(py, "update", (task, unit, done, total, saying)).map(drop));
    }

    /// Removes the bar.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        match &self.bar {
            Some(bar) => bar.call_method0(py, "close").map(drop),
            None => Ok(()),
        }
    }
}
