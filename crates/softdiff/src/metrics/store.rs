//! Results that are stored with the run whose images they measure: `evaluations/*.json`.

use super::evaluation::FORMAT;
use super::{Evaluation, compare};
use crate::recipe::{Recipe, RecipeError};
use crate::run::RunFolder;
use crate::run::fs::read_up_to;
use crate::train::known_by;
use softdiff_engine::hash::ContentHash;
use softdiff_engine::{Hint, atomic_file, regular_file};
use std::borrow::Cow;
use std::io::Write;
use std::path::PathBuf;

/// Results that are read of one run, and the longest of them.
const MOST: usize = 500;
const LONGEST: u64 = 1 << 20;

/// The results of a run, by sampler and then by evaluations of the network.
#[derive(Clone, Debug, Default)]
pub struct StoredEvaluations {
    /// The results.
    pub evaluations: Vec<Evaluation>,
    /// Files that are no results.
    pub unreadable: Vec<String>,
}

impl StoredEvaluations {
    /// Reads what a run's folder holds; nothing where there is none.
    pub fn read(run: &RunFolder) -> StoredEvaluations {
        let (fs, folder) = (run.fs(), run.evaluations());
        let mut kept = StoredEvaluations::default();
        let names = fs.list(&folder).unwrap_or_default();
        for name in names.into_iter().filter(|name| name.ends_with(".json")).take(MOST) {
            let bytes = read_up_to(fs.as_ref(), &folder.join(&name), LONGEST).unwrap_or_default();
            match serde_json::from_slice::<Evaluation>(&bytes).ok().filter(|found| found.format == FORMAT) {
                Some(evaluation) => kept.evaluations.push(evaluation),
                None => kept.unreadable.push(name),
            }
        }
        let order = |one: &Evaluation| one.made.as_ref().map(|made| (made.sampler.clone(), made.evaluations));
        kept.evaluations.sort_by_key(order);
        kept
    }

    /// Those that may be compared with each other, together.
    pub fn groups(&self) -> Vec<Vec<&Evaluation>> {
        let mut groups: Vec<Vec<&Evaluation>> = Vec::new();
        for evaluation in &self.evaluations {
            match groups.iter_mut().find(|group| group.iter().all(|other| compare(other, evaluation).is_ok())) {
                Some(group) => group.push(evaluation),
                None => groups.push(vec![evaluation]),
            }
        }
        groups
    }
}

impl Evaluation {
    /// Its file's name among those of a run: the same images measured again in the same way replace it.
    pub fn file_name(&self) -> String {
        let text = serde_json::to_string(&self.protocol).expect("strings and numbers are JSON");
        format!("{}.json", ContentHash::of(text.as_bytes()).hex())
    }

    /// Refuses a folder that is not a run, and a model of another run: its name, and its [`Model::run_identity`] where it is
    /// known.
    ///
    /// [`Model::run_identity`]: crate::Model::run_identity
    pub fn check_run(run: &RunFolder, model: Option<(&str, Option<&str>)>) -> Result<(), StoreError> {
        if !run.config().is_file() {
            return Err(StoreError::NotARun { folder: run.root().into() });
        }
        let recipe = Recipe::saved(&run.config(), &[])?;
        let Some((model, identity)) = model else { return Ok(()) };
        if model != recipe.name {
            return Err(StoreError::AnotherModel { model: model.into(), run: recipe.name });
        }
        // A run that has only begun has no identity.
        let of_run = || Some(known_by(&recipe, run.read_schedule().ok()?.as_ref(), &run.read_prior().ok()?));
        match (identity, of_run()) {
            (Some(found), Some(own)) if found != own => {
                Err(StoreError::AnotherRun { name: recipe.name, run: run.root().into() })
            }
            _ => Ok(()),
        }
    }

    /// The text of a result file.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("strings and numbers are JSON") + "\n"
    }

    /// Stores it with the run; gives its file.
    pub fn store(&self, run: &RunFolder) -> Result<PathBuf, StoreError> {
        let folder = run.evaluations();
        let write = |file: &PathBuf| {
            regular_file::refuse_link(&folder)?;
            std::fs::create_dir_all(&folder)?;
            atomic_file::write_in_folder(file, |to| to.write_all(self.to_json().as_bytes()))
        };
        let file = folder.join(self.file_name());
        match write(&file) {
            Ok(()) => Ok(file),
            Err(error) => Err(StoreError::Unwritable { file, error }),
        }
    }
}

/// Why a result could not be stored with a run.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The fields are named as the messages use them.
pub enum StoreError {
    /// A folder without a recipe.
    #[error("{} is no run: it has no config.toml", folder.display())]
    NotARun { folder: PathBuf },
    /// Images of another model.
    #[error("these images were made by {model:?}, and this run is {run:?}")]
    AnotherModel { model: String, run: String },
    /// Images of a run by a recipe of the same name.
    #[error("these images were made by another run of {name:?} than {}", run.display())]
    AnotherRun { name: String, run: PathBuf },
    /// No space, or no permission.
    #[error("cannot write {}: {error}", file.display())]
    Unwritable { file: PathBuf, error: std::io::Error },
    /// A bad recipe.
    #[error("{0}")]
    Recipe(#[from] RecipeError),
}

impl Hint for StoreError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            StoreError::NotARun { .. } => "give --run the folder that softdiff train wrote".into(),
            StoreError::AnotherModel { .. } | StoreError::AnotherRun { .. } => {
                "give --run the run that made them, or leave it out".into()
            }
            StoreError::Unwritable { .. } => {
                "check the folder, the free space and the limit on file sizes (ulimit -f)".into()
            }
            _ => return None,
        })
    }
}
