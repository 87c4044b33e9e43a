//! How a failure is shown: the error, its causes, a hint, and an exit code.

use crate::output::coloured_note;
use serde_json::{Value, json};
use softdiff::engine::Error as EngineError;
use softdiff::hint::{causes, explain};
use softdiff::quote::shown;
use softdiff::ranks::RankError;
use softdiff::recipe::RecipeError;
use softdiff::run::Stopped;
use std::error::Error;
use std::io::IsTerminal;

/// What a command returns.
pub type Outcome = Result<(), Failure>;

/// A failed command: exit 1 when the user can act on it, 2 for bad usage or a bad recipe, 75 or 130 when a signal stopped
/// it in good order.
#[derive(Debug)]
pub struct Failure {
    error: Box<dyn Error + Send + Sync>,
    hint: Option<String>,
    kind: FailureKind,
    is_silent: bool,
    /// What was done all the same, for `--json`.
    facts: serde_json::Map<String, Value>,
}

/// What the first word on standard error and the exit code say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureKind {
    /// `error:`, 1.
    Failed,
    /// `error:`, 2. The message brings its places and hints.
    Recipe,
    /// `error:`, 75: another process is lost, and running the same command again continues.
    LostRank,
    /// The message says it all: the code of the signal.
    Stopped { code: u8 },
    /// `error:`, the code of a process that this one started.
    Started { code: u8 },
}

impl Failure {
    /// A failure for a reason the user can act on (exit code 1).
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let error = error.into();
        let kind = |cause: &(dyn Error + 'static)| match cause.downcast_ref::<Stopped>() {
            Some(stopped) => Some(FailureKind::Stopped { code: stopped.signal.exit_code() }),
            None if is_lost_rank(cause) => Some(FailureKind::LostRank),
            None => cause.is::<RecipeError>().then_some(FailureKind::Recipe),
        };
        let kind = causes(error.as_ref()).filter_map(kind).last().unwrap_or(FailureKind::Failed);
        Failure { error, hint: None, kind, is_silent: false, facts: serde_json::Map::new() }
    }

    /// The same failure as that of one of several things, whose name leads the message unless it is there already.
    pub fn of(self, name: &str) -> Self {
        let (problem, remedy) = self.explain();
        let error = if problem.contains(name) { problem } else { format!("{name}: {problem}") };
        Failure { error: error.into(), hint: remedy, ..self }
    }

    /// Something that was done all the same, as a field of the object that `--json` prints.
    pub fn fact(mut self, name: &str, value: Value) -> Self {
        self.facts.insert(name.to_owned(), value);
        self
    }

    /// Whether a signal ended the work in good order.
    pub fn is_stopped(&self) -> bool {
        matches!(self.kind, FailureKind::Stopped { .. })
    }

    /// Whether the error or one of its causes is such.
    pub fn has_cause(&self, such: impl Fn(&(dyn Error + 'static)) -> bool) -> bool {
        causes(self.error.as_ref()).any(such)
    }

    /// The same failure, of which nothing but the exit code is shown: another process says it.
    pub fn silent(self) -> Self {
        Failure { is_silent: true, ..self }
    }

    /// The same failure with the exit code of a process that was started.
    pub fn with_code(self, code: u8) -> Self {
        Failure { kind: FailureKind::Started { code }, ..self }
    }

    /// The remedy, shown on its own `hint:` line.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Prints `error:`, each `cause:` and `hint:` to standard error, with `json` the same as an object on standard output,
    /// and gives the exit code.
    pub fn report(&self, json: bool) -> u8 {
        if self.is_silent {
            return self.code();
        }
        let (problem, remedy) = self.explain();
        let (problem, remedy) = (shown(&problem), remedy.map(|remedy| shown(&remedy)));
        // An error that only passes another one on has its message.
        let mut causes: Vec<String> = causes(self.error.as_ref()).map(|cause| shown(&cause.to_string())).collect();
        causes.dedup();
        causes.remove(0);
        if json {
            let problems = self.recipe().map(|error| &error.problems);
            let mut facts = json!({
                "error": problem, "causes": causes, "hint": remedy, "code": self.code(), "problems": problems,
            });
            self.facts.iter().for_each(|(name, value)| facts[name] = value.clone());
            println!("{facts}");
        }
        match self.kind {
            FailureKind::Failed | FailureKind::LostRank | FailureKind::Started { .. } => eprintln!("error: {problem}"),
            FailureKind::Recipe => coloured_note(&format!("error: {}\n", self.coloured(problem))),
            FailureKind::Stopped { .. } => eprintln!("{problem}"),
        }
        causes.iter().for_each(|cause| eprintln!("cause: {cause}"));
        if let Some(hint) = remedy {
            eprintln!("hint: {hint}");
        }
        if crate::output::is_verbose() {
            eprintln!("in full: {:?}", self.error);
        }
        self.code()
    }

    /// What is wrong, and what to do about it.
    pub fn explain(&self) -> (String, Option<String>) {
        match &self.hint {
            Some(hint) => (self.error.to_string(), Some(hint.clone())),
            None => explain(self.error.as_ref()),
        }
    }

    /// All that is wrong with the recipe, where that is it.
    fn recipe(&self) -> Option<&RecipeError> {
        causes(self.error.as_ref()).find_map(|cause| cause.downcast_ref())
    }

    /// A recipe's problems in the colours of standard error, also where another error passes them on.
    fn coloured(&self, problem: String) -> String {
        match self.recipe().filter(|_| crate::output::colours()) {
            Some(error) => problem.replace(&error.to_string(), &error.render(true)),
            None => problem,
        }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self.kind {
            FailureKind::Failed => 1,
            FailureKind::Recipe => 2,
            FailureKind::LostRank => 75,
            FailureKind::Stopped { code } | FailureKind::Started { code } => code,
        }
    }
}

/// Whether an error says that another rank of a training is lost.
fn is_lost_rank(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(RankError::Lost(_)))
        || matches!(error.downcast_ref(), Some(EngineError::Rank { .. }))
}

/// The report of a process that a signal ends in the midst of its work. `continues` says whether the same command goes on from
/// there.
pub fn report_stop(reason: Box<dyn Error + Send + Sync>, continues: bool, json: bool) -> u8 {
    let mut failure = Failure::new(reason);
    if continues && failure.explain().1.is_none() {
        failure = failure.hint("run the same command again to continue");
    }
    if std::io::stderr().is_terminal() {
        // Below the line of the progress.
        eprintln!();
    }
    failure.report(json)
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::new(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff::checkpoint::CheckpointError;
    use softdiff::hint::Hint;
    use softdiff::model::ModelError;
    use softdiff::run::StopSignal;
    use softdiff::train::TrainError;

    fn hint(failure: &Failure) -> Option<String> {
        failure.explain().1
    }

    #[test]
    fn a_signal_that_stopped_training_in_good_order_decides_the_exit_code() {
        for (signal, code) in [(StopSignal::Terminate, 75), (StopSignal::HangUp, 75), (StopSignal::Interrupt, 130)] {
            let failure = Failure::from(Stopped { signal, step: Some(7), checkpoint: Some("step-000000007".into()) });
            assert_eq!(failure.code(), code);
            assert_eq!(hint(&failure).as_deref(), Some("run the same command again to continue"));
            let stopped = Stopped { signal, step: Some(7), checkpoint: Some("step-000000007".into()) };
            let failure = Failure::from(TrainError::from(stopped));
            assert_eq!((failure.code(), hint(&failure).is_some()), (code, true));
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
        assert_eq!(hint(&Failure::from(same())).as_deref(), same().hint().as_deref());
        assert_eq!(hint(&Failure::from(Training(same()))).as_deref(), same().hint().as_deref());
        let failure = Failure::from(same()).hint("better");
        assert_eq!((hint(&failure).as_deref(), failure.code()), (Some("better"), 1));
    }

    #[test]
    fn training_that_does_not_fit_the_gpu_is_told_how_to_fit() {
        let full = || softdiff::engine::Error::Memory { planned: 3.7, free: 2.0, total: 8.0, device: "GPU".into() };
        let hint = |failure: Failure| hint(&failure).unwrap_or_default();
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
