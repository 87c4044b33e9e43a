//! How a failure is shown: the error, its causes, a hint, and an exit code.

use softdiff::checkpoint::CheckpointError;
use softdiff::run::{Diverged, RunError, Stopped};
use std::error::Error;
use std::process::ExitCode;

/// What a command returns.
pub type Outcome = Result<(), Failure>;

/// A failed command: exit 1 when the user can act on it, 2 for bad usage, 75 or 130 when a signal stopped it in good
/// order.
#[derive(Debug)]
pub struct Failure {
    error: Box<dyn Error + Send + Sync>,
    hint: Option<String>,
    kind: Kind,
}

/// What the first word on standard error and the exit code say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `error:`, 1.
    Failed,
    /// The message says it all: the code of the signal.
    Stopped { code: u8 },
}

impl Failure {
    /// A failure for a reason the user can act on (exit code 1).
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let error = error.into();
        let (mut hint, mut kind) = (None, Kind::Failed);
        // The libraries' own errors know their remedy, also as the cause of another error.
        let mut cause: Option<&(dyn Error + 'static)> = Some(error.as_ref());
        while let Some(error) = cause {
            if let Some(stopped) = error.downcast_ref::<Stopped>() {
                kind = Kind::Stopped { code: stopped.signal.exit_code() };
            }
            hint = hint.or_else(|| known_hint(error));
            cause = error.source();
        }
        Failure { error, hint, kind }
    }

    /// The remedy, shown on its own `hint:` line.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Prints `error:`, each `cause:` and `hint:` to standard error and gives the exit code.
    pub fn report(&self) -> ExitCode {
        // Without a hint of its own, a message may end with the remedy: "what is wrong; what to do".
        let message = self.error.to_string();
        let (problem, remedy) = match (&self.hint, message.rsplit_once("; ")) {
            (None, Some((problem, remedy))) => (problem, Some(remedy)),
            (hint, _) => (message.as_str(), hint.as_deref()),
        };
        match self.kind {
            Kind::Failed => eprintln!("error: {problem}"),
            Kind::Stopped { .. } => eprintln!("{problem}"),
        }
        let mut cause = self.error.source();
        while let Some(error) = cause {
            eprintln!("cause: {error}");
            cause = error.source();
        }
        if let Some(hint) = remedy {
            eprintln!("hint: {hint}");
        }
        ExitCode::from(self.code())
    }

    fn code(&self) -> u8 {
        match self.kind {
            Kind::Failed => 1,
            Kind::Stopped { code } => code,
        }
    }
}

fn known_hint(error: &(dyn Error + 'static)) -> Option<String> {
    let checkpoint = error.downcast_ref().and_then(CheckpointError::hint);
    let run = || error.downcast_ref().and_then(RunError::hint);
    let diverged = || error.downcast_ref().map(Diverged::hint);
    let stopped = || error.downcast_ref().map(Stopped::hint);
    let device = || match error.downcast_ref() {
        Some(softdiff::engine::Error::Device { hint, .. }) => Some(hint.clone()),
        _ => None,
    };
    checkpoint.or_else(run).or_else(diverged).or_else(stopped).or_else(device)
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::new(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff::run::StopSignal;

    #[test]
    fn a_signal_that_stopped_training_in_good_order_decides_the_exit_code() {
        for (signal, code) in [(StopSignal::Terminate, 75), (StopSignal::Interrupt, 130)] {
            let failure = Failure::from(Stopped { signal, step: 7, checkpoint: "step-000000007".into() });
            assert_eq!(failure.code(), code);
            assert_eq!(failure.hint.as_deref(), Some("run the same command again to continue"));
        }
    }

    #[test]
    fn an_error_shows_the_hint_that_it_or_its_cause_brings_unless_a_better_one_is_given() {
        let same = || CheckpointError::SameDecay { decay: 0.9 };
        assert_eq!(Failure::from(same()).hint, same().hint());
        assert_eq!(Failure::from(Training(same())).hint, same().hint());
        let failure = Failure::from(same()).hint("better");
        assert_eq!((failure.hint.as_deref(), failure.code()), (Some("better"), 1));
    }

    #[derive(Debug)]
    struct Training(CheckpointError);
    impl std::fmt::Display for Training {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("training failed")
        }
    }
    impl Error for Training {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }
}
