//! Long work beside Python: it runs on a thread of its own without the GIL, while the thread that called waits for signals and
//! for Python code to run.
//!
//! All Python code (denoisers, callbacks, progress bars) runs in the calling thread, where plots and signal handlers expect it.

use pyo3::prelude::*;
use softdiff::run::{StopRequest, StopSignal};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How soon Ctrl-C is noticed.
const SOON: Duration = Duration::from_millis(50);

/// Python code to run in the calling thread.
type Call = Box<dyn FnOnce(Python<'_>) + Send>;

/// What ended the work from Python: Ctrl-C, or an exception of Python code that it called.
#[derive(Clone, Default)]
struct Failure(Arc<Mutex<Option<PyErr>>>);

impl Failure {
    /// The first one counts.
    fn set(&self, error: PyErr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Work was ended from Python; the exception is kept, and raised by [`run`].
pub struct Ended;

/// What work knows of the Python thread that waits for it.
pub struct Worker {
    calls: Sender<Call>,
    failure: Failure,
    stop: StopRequest,
}

impl Worker {
    /// What asks the work to stop.
    pub fn stop_request(&self) -> StopRequest {
        self.stop.clone()
    }

    /// Whether the work is to end.
    pub fn is_ended(&self) -> bool {
        self.stop.signal().is_some()
    }

    /// Ends work that only reports its progress and cannot fail there. [`run`] catches it.
    pub fn unwind_if_ended(&self) {
        if self.is_ended() {
            resume_unwind(Box::new(Ended));
        }
    }

    /// Runs Python code and waits for its result. Its exception ends the work.
    pub fn call<T: Send + 'static>(
        &self,
        code: impl FnOnce(Python<'_>) -> PyResult<T> + Send + 'static,
    ) -> Result<T, Ended> {
        let (reply, result) = channel();
        let (failure, stop) = (self.failure.clone(), self.stop.clone());
        let call = move |py: Python<'_>| match code(py) {
            Ok(value) => drop(reply.send(value)),
            Err(error) => {
                failure.set(error);
                stop.ask(StopSignal::Interrupt);
            }
        };
        self.calls.send(Box::new(call)).map_err(|_| Ended)?;
        result.recv().map_err(|_| Ended)
    }

    /// Runs Python code without waiting for it. Its exception ends the work.
    pub fn post(&self, code: impl FnOnce(Python<'_>) -> PyResult<()> + Send + 'static) {
        let (failure, stop) = (self.failure.clone(), self.stop.clone());
        let call = move |py: Python<'_>| {
            if let Err(error) = code(py) {
                failure.set(error);
                stop.ask(StopSignal::Interrupt);
            }
        };
        // Nobody receives it only where nobody waits any more.
        let _ = self.calls.send(Box::new(call));
    }
}

/// The result of work, and the exception that ended it, if one did.
pub struct Outcome<T> {
    /// None where the work was unwound.
    pub result: Option<T>,
    /// Ctrl-C, or an exception of Python code that the work called.
    pub raised: Option<PyErr>,
}

/// Does the work without the GIL, and gives both its result and what was raised meanwhile.
pub fn run_to_end<T: Send>(py: Python<'_>, work: impl FnOnce(&Worker) -> T + Send) -> Outcome<T> {
    let (calls, requests) = channel();
    let (failure, stop) = (Failure::default(), StopRequest::default());
    let worker = Worker { calls, failure: failure.clone(), stop: stop.clone() };
    let raised = failure.clone();
    let result = py.detach(move || {
        thread::scope(|scope| {
            // The worker goes with its thread, and with it the last sender.
            let thread = scope.spawn(move || {
                let worker = worker;
                catch_unwind(AssertUnwindSafe(|| work(&worker)))
            });
            serve(&requests, &failure, &stop);
            thread.join().and_then(|result| result)
        })
    });
    let result = match result {
        Ok(value) => Some(value),
        Err(panic) if (*panic).is::<Ended>() => None,
        Err(panic) => resume_unwind(panic as Box<dyn Any + Send>),
    };
    Outcome { result, raised: raised.take() }
}

/// Does the work without the GIL. Ctrl-C and exceptions of Python code that the work calls are raised once it has ended.
pub fn run<T: Send, E: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Worker) -> Result<T, E> + Send,
) -> PyResult<Result<T, E>> {
    let Outcome { result, raised } = run_to_end(py, work);
    match (raised, result) {
        (Some(error), _) => Err(error),
        (None, Some(result)) => Ok(result),
        (None, None) => Err(pyo3::exceptions::PyKeyboardInterrupt::new_err(())),
    }
}

/// Runs what the work asks for, and looks for signals, until the work is done.
fn serve(requests: &Receiver<Call>, failure: &Failure, stop: &StopRequest) {
    let mut looked = Instant::now();
    loop {
        match requests.recv_timeout(SOON) {
            Ok(call) => Python::attach(call),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if looked.elapsed() >= SOON {
            looked = Instant::now();
            if let Err(error) = Python::attach(|py| py.check_signals()) {
                failure.set(error);
                stop.ask(StopSignal::Interrupt);
            }
        }
    }
}
