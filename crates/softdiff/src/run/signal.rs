//! SIGTERM and Ctrl-C: finish the step, save, leave with a code that says so.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use softdiff_engine::Hint;
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use thiserror::Error;

/// A signal that asks the process to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGTERM: a scheduler wants the machine back.
    Terminate,
    /// SIGINT: Ctrl-C.
    Interrupt,
}

impl StopSignal {
    /// What the process ends with once its checkpoint is saved: 75 (run again to continue), or 130.
    pub fn exit_code(self) -> u8 {
        match self {
            StopSignal::Terminate => 75,
            StopSignal::Interrupt => 130,
        }
    }
}

impl fmt::Display for StopSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StopSignal::Terminate => "SIGTERM",
            StopSignal::Interrupt => "Ctrl-C",
        })
    }
}

/// Training that a signal ended in good order.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("stopped by {signal} at step {step}; {} is saved", checkpoint.as_deref().unwrap_or("nothing"))]
pub struct Stopped {
    /// The signal.
    pub signal: StopSignal,
    /// Steps done.
    pub step: u64,
    /// Name of the checkpoint to continue from; none where the run has no folder.
    pub checkpoint: Option<String>,
}

impl Hint for Stopped {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some("run the same command again to continue".into())
    }
}

/// Whether a signal has asked to stop; to be looked at once per step.
#[derive(Clone, Debug)]
pub struct StopRequest {
    signal: Arc<AtomicUsize>,
}

impl StopRequest {
    /// From now on SIGTERM and Ctrl-C are requests. A Ctrl-C after either ends the process at once, with code 130.
    pub fn install() -> io::Result<StopRequest> {
        let (asked, signal) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        // In this order: the first signal must find `asked` unset.
        flag::register_conditional_shutdown(SIGINT, i32::from(StopSignal::Interrupt.exit_code()), asked.clone())?;
        for number in [SIGINT, SIGTERM] {
            flag::register(number, asked.clone())?;
            flag::register_usize(number, signal.clone(), number as usize)?;
        }
        // Otherwise a limit on file sizes (ulimit -f) would kill the process where a write could fail with a reason.
        #[cfg(unix)]
        flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        Ok(StopRequest { signal })
    }

    /// The last signal that asked.
    pub fn signal(&self) -> Option<StopSignal> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            number if number == SIGINT as usize => Some(StopSignal::Interrupt),
            _ => Some(StopSignal::Terminate),
        }
    }
}
