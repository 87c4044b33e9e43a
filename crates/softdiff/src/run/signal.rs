//! SIGTERM, SIGHUP and Ctrl-C: a training run saves and leaves with a code that says so; what has nothing to save ends at once.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use softdiff_engine::{Hint, atomic_file};
use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::Builder;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How soon a signal is noticed.
const SOON: Duration = Duration::from_millis(20);
/// A scheduler, or a terminal that is closed, may send more than one signal; within this time they are one request.
const ONE_REQUEST: Duration = Duration::from_secs(1);
/// The longest that the last message may take: standard error may be a pipe that nobody reads.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A signal that asks the process to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGTERM: a scheduler wants the machine back.
    Terminate,
    /// SIGHUP: the terminal was closed.
    HangUp,
    /// SIGINT: Ctrl-C.
    Interrupt,
}

impl StopSignal {
    /// What the process ends with: 75 (run again to continue), or 130.
    pub fn exit_code(self) -> u8 {
        match self {
            StopSignal::Terminate | StopSignal::HangUp => 75,
            StopSignal::Interrupt => 130,
        }
    }

    fn of(number: i32) -> StopSignal {
        match number {
            SIGINT => StopSignal::Interrupt,
            SIGTERM => StopSignal::Terminate,
            _ => StopSignal::HangUp,
        }
    }
}

impl fmt::Display for StopSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StopSignal::Terminate => "SIGTERM",
            StopSignal::HangUp => "SIGHUP",
            StopSignal::Interrupt => "Ctrl-C",
        })
    }
}

/// Work that a signal ended in good order.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct Stopped {
    /// The signal.
    pub signal: StopSignal,
    /// Training steps done; none where no step was under way.
    pub step: Option<u64>,
    /// Name of the checkpoint to continue from; none where the run has no folder.
    pub checkpoint: Option<String>,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stopped by {}", self.signal)?;
        match self.step {
            Some(step) => write!(f, " at step {step}; {} is saved", self.checkpoint.as_deref().unwrap_or("nothing")),
            None => Ok(()),
        }
    }
}

impl Hint for Stopped {
    fn hint(&self) -> Option<Cow<'_, str>> {
        self.step.map(|_| "run the same command again to continue".into())
    }
}

/// Prints why the process ends, and gives its exit code.
type LastWords = dyn Fn(Box<dyn Error + Send + Sync>) -> u8 + Send + Sync;

/// A request to stop, by a signal or by whoever has a clone of it.
#[derive(Clone, Default)]
pub struct StopRequest(Arc<Shared>);

#[derive(Default)]
struct Shared {
    asked: Mutex<Asked>,
    /// Of a process that ends by signals.
    last_words: Option<Box<LastWords>>,
}

#[derive(Default)]
struct Asked {
    signal: Option<(StopSignal, Instant)>,
    /// How many answer the request themselves.
    holders: usize,
}

/// While it lives, a request is answered by who holds it: the process does not end by the first signal.
pub struct StopHold(StopRequest);

impl Drop for StopHold {
    fn drop(&mut self) {
        self.0.asked().holders -= 1;
    }
}

impl StopRequest {
    /// From now on SIGTERM, SIGHUP and Ctrl-C are requests. They end the process at once, without temporary files and after
    /// `last_words`, except where [`StopRequest::hold`] says that somebody answers them; there a second one does. SIGHUP stays
    /// ignored where it is (`nohup`).
    ///
    /// A write beyond a limit on file sizes (`ulimit -f`) no longer kills the process, and fails with a reason instead.
    pub fn install(
        last_words: impl Fn(Box<dyn Error + Send + Sync>) -> u8 + Send + Sync + 'static,
    ) -> io::Result<StopRequest> {
        let received = Arc::new(AtomicUsize::new(0));
        #[cfg_attr(not(unix), allow(unused_mut))]
        let mut numbers = vec![SIGINT, SIGTERM];
        #[cfg(unix)]
        {
            use signal_hook::consts::{SIGHUP, SIGXFSZ};
            numbers.extend((!is_ignored(SIGHUP)).then_some(SIGHUP));
            flag::register_usize(SIGXFSZ, Arc::default(), 0)?;
        }
        for number in numbers {
            flag::register_usize(number, received.clone(), number as usize)?;
        }
        let last_words: Option<Box<LastWords>> = Some(Box::new(last_words));
        let request = StopRequest(Arc::new(Shared { asked: Mutex::default(), last_words }));
        let asked = request.clone();
        Builder::new().name("signals".into()).spawn(move || {
            loop {
                match received.swap(0, Ordering::Relaxed) {
                    0 => std::thread::sleep(SOON),
                    number => asked.ask(StopSignal::of(number as i32)),
                }
            }
        })?;
        Ok(request)
    }

    /// Asks to stop, as a signal does.
    pub fn ask(&self, signal: StopSignal) {
        let is_answered = {
            let mut asked = self.asked();
            match asked.signal {
                None => {
                    asked.signal = Some((signal, Instant::now()));
                    asked.holders > 0
                }
                Some((_, at)) => signal != StopSignal::Interrupt && at.elapsed() < ONE_REQUEST,
            }
        };
        if !is_answered {
            self.end(Stopped { signal, step: None, checkpoint: None });
        }
    }

    /// The signal that asked first.
    pub fn signal(&self) -> Option<StopSignal> {
        self.asked().signal.map(|(signal, _)| signal)
    }

    /// From now on the caller looks at [`StopRequest::signal`] often, and stops in good order.
    pub fn hold(&self) -> StopHold {
        self.asked().holders += 1;
        StopHold(self.clone())
    }

    /// Fails if a request was made while it was held, and came too late for who held it.
    pub fn check(&self) -> Result<(), Stopped> {
        match self.signal() {
            Some(signal) => Err(Stopped { signal, step: None, checkpoint: None }),
            None => Ok(()),
        }
    }

    /// Ends the process for this reason; gives it back where no signal ends the process.
    pub(crate) fn end<E: Error + Send + Sync + 'static>(&self, reason: E) -> E {
        if self.0.last_words.is_none() {
            return reason;
        }
        atomic_file::remove_temporaries();
        let (send, code) = mpsc::channel();
        let shared = self.0.clone();
        let speak = move || shared.last_words.as_ref().map(|last_words| send.send(last_words(Box::new(reason))));
        let speaking = Builder::new().name("last words".into()).spawn(speak);
        let code = speaking.ok().and_then(|_| code.recv_timeout(LAST_WORDS).ok());
        // Without the destructors of other threads' libraries, which are in the midst of their work.
        low_level::exit(code.map_or_else(|| self.signal().map_or(1, StopSignal::exit_code), Into::into).into())
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        // What is behind it is right at any time.
        self.0.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for StopRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StopRequest").field(&self.signal()).finish()
    }
}

/// Whether the process was started with this signal ignored, where the system tells.
#[cfg(unix)]
fn is_ignored(number: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (number - 1) & 1 == 1)
}
