//! How a failure is shown: the error, its causes, a hint, and an exit code.

use std::error::Error;
use std::process::ExitCode;

/// What a command returns.
pub type Outcome = Result<(), Failure>;

/// A failed command: exit 1 when the user can act on it, 2 for bad usage.
#[derive(Debug)]
pub struct Failure {
    error: Box<dyn Error + Send + Sync>,
    hint: Option<String>,
    code: u8,
}

impl Failure {
    /// A failure for a reason the user can act on (exit code 1).
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Failure { error: error.into(), hint: None, code: 1 }
    }

    /// The remedy, shown on its own `hint:` line.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Prints `error:`, each `cause:` and `hint:` to standard error and gives the exit code.
    pub fn report(&self) -> ExitCode {
        // The libraries' messages end with the remedy: "what is wrong; what to do".
        let message = self.error.to_string();
        let own = match self.error.downcast_ref() {
            Some(softdiff::engine::Error::Device { hint, .. }) => Some(hint.clone()),
            _ => None,
        };
        let (problem, remedy) = match (self.hint.clone().or(own), message.rsplit_once("; ")) {
            (None, Some((problem, remedy))) => (problem, Some(remedy.to_owned())),
            (hint, _) => (message.as_str(), hint),
        };
        eprintln!("error: {problem}");
        let mut cause = self.error.source();
        while let Some(error) = cause {
            eprintln!("cause: {error}");
            cause = error.source();
        }
        if let Some(hint) = remedy {
            eprintln!("hint: {hint}");
        }
        ExitCode::from(self.code)
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::new(error)
    }
}
