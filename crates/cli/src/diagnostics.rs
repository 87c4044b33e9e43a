//! How a failure is shown: the error, its causes, a hint, and an exit code.

use serde_json::json;
use softdiff::checkpoint::CheckpointError;
use softdiff::model::ModelError;
use softdiff::recipe::RecipeError;
use softdiff::run::{Diverged, RunError, Stopped};
use softdiff::train::{PrepareError, TrainError};
use std::error::Error;
use std::process::ExitCode;

/// What a command returns.
pub type Outcome = Result<(), Failure>;

/// A failed command: exit 1 when the user can act on it, 2 for bad usage or a bad recipe, 75 or 130 when a signal stopped
/// it in good order.
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
    /// `error:`, 2. The message brings its places and hints.
    Recipe,
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
            let error = inner(error);
            if let Some(stopped) = error.downcast_ref::<Stopped>() {
                kind = Kind::Stopped { code: stopped.signal.exit_code() };
            }
            if error.is::<RecipeError>() {
                kind = Kind::Recipe;
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

    /// Prints `error:`, each `cause:` and `hint:` to standard error, with `json` the same as an object on standard output,
    /// and gives the exit code.
    pub fn report(&self, json: bool) -> ExitCode {
        let (problem, remedy) = self.words();
        let causes = std::iter::successors(self.error.source(), |&cause| cause.source());
        let causes: Vec<String> = causes.map(ToString::to_string).collect();
        if json {
            let problems = self.recipe().map(|error| &error.problems);
            let facts = json!({
                "error": problem, "causes": causes, "hint": remedy, "code": self.code(), "problems": problems,
            });
            println!("{facts}");
        }
        match self.kind {
            Kind::Failed | Kind::Recipe => eprintln!("error: {problem}"),
            Kind::Stopped { .. } => eprintln!("{problem}"),
        }
        causes.iter().for_each(|cause| eprintln!("cause: {cause}"));
        if let Some(hint) = remedy {
            eprintln!("hint: {hint}");
        }
        if crate::output::is_verbose() {
            eprintln!("in full: {:?}", self.error);
        }
        ExitCode::from(self.code())
    }

    /// What is wrong, and what to do about it.
    pub fn words(&self) -> (String, Option<String>) {
        // Without a hint of its own, a message may end with the remedy: "what is wrong; what to do".
        let message = self.error.to_string();
        match (&self.hint, message.rsplit_once("; ")) {
            (None, Some((problem, remedy))) if self.kind != Kind::Recipe => (problem.into(), Some(remedy.into())),
            (hint, _) => (message, hint.clone()),
        }
    }

    /// All that is wrong with the recipe, where that is it.
    fn recipe(&self) -> Option<&RecipeError> {
        inner(self.error.as_ref()).downcast_ref()
    }

    fn code(&self) -> u8 {
        match self.kind {
            Kind::Failed => 1,
            Kind::Recipe => 2,
            Kind::Stopped { code } => code,
        }
    }
}

/// The error inside one that only passes it on, and so hides it from its list of sources.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    match error.downcast_ref() {
        Some(known) if TrainError::hint(known).is_some() => return known,
        Some(TrainError::Stopped(inner)) => return inner,
        Some(TrainError::Diverged(inner)) => return inner,
        Some(TrainError::Checkpoint(inner)) => return inner,
        Some(TrainError::Run(inner)) => return inner,
        Some(TrainError::Engine(inner)) => return inner,
        Some(TrainError::Recipe(inner)) => return inner,
        Some(TrainError::Prepare(prepare)) => return inner(&**prepare),
        _ => {}
    }
    match error.downcast_ref() {
        Some(ModelError::Recipe(inner)) => return inner,
        Some(ModelError::Checkpoint(inner)) => return inner,
        Some(ModelError::Engine(inner)) => return inner,
        _ => {}
    }
    match error.downcast_ref() {
        Some(PrepareError::Run(inner)) => inner,
        _ => error,
    }
}

fn known_hint(error: &(dyn Error + 'static)) -> Option<String> {
    let checkpoint = error.downcast_ref().and_then(CheckpointError::hint);
    let run = || error.downcast_ref().and_then(RunError::hint);
    let diverged = || error.downcast_ref().map(Diverged::hint);
    let stopped = || error.downcast_ref().map(Stopped::hint);
    let train = || error.downcast_ref().and_then(TrainError::hint);
    let device = || match error.downcast_ref() {
        Some(softdiff::engine::Error::Device { hint, .. }) => Some(hint.clone()),
        Some(softdiff::engine::Error::Memory { .. }) => {
            Some("use a smaller batch, or free the GPU (nvidia-smi shows who uses it)".into())
        }
        _ => None,
    };
    checkpoint.or_else(run).or_else(diverged).or_else(stopped).or_else(train).or_else(device)
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
            let failure = Failure::from(Stopped { signal, step: 7, checkpoint: Some("step-000000007".into()) });
            assert_eq!(failure.code(), code);
            assert_eq!(failure.hint.as_deref(), Some("run the same command again to continue"));
            let stopped = Stopped { signal, step: 7, checkpoint: Some("step-000000007".into()) };
            let failure = Failure::from(TrainError::from(stopped));
            assert_eq!((failure.code(), failure.hint.is_some()), (code, true));
        }
    }

    #[test]
    fn a_bad_recipe_exits_with_2_also_as_that_of_a_model() {
        let error = || softdiff::recipe::Recipe::parse("", "empty.toml", &[]).unwrap_err();
        assert_eq!(Failure::from(error()).code(), 2);
        assert_eq!(Failure::from(ModelError::from(error())).code(), 2);
        assert_eq!(Failure::from(ModelError::NoModel("nowhere".into())).code(), 1);
    }

    #[test]
    fn an_error_shows_the_hint_that_it_or_its_cause_brings_unless_a_better_one_is_given() {
        let same = || CheckpointError::SameDecay { decay: 0.9 };
        assert_eq!(Failure::from(same()).hint, same().hint());
        assert_eq!(Failure::from(Training(same())).hint, same().hint());
        let failure = Failure::from(same()).hint("better");
        assert_eq!((failure.hint.as_deref(), failure.code()), (Some("better"), 1));
    }

    #[test]
    fn training_that_does_not_fit_the_gpu_is_told_how_to_fit() {
        let full = || softdiff::engine::Error::Memory { planned: 3.7, free: 2.0, total: 8.0, device: "GPU".into() };
        let hint = |failure: Failure| failure.hint.unwrap_or_default();
        assert!(hint(Failure::from(full())).contains("smaller batch"));
        let (message, hint) = (TrainError::from(full()).to_string(), hint(Failure::from(TrainError::from(full()))));
        assert!(message.starts_with("3.70 GiB are planned") && hint.contains("train.recompute=true"), "{hint}");
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
