//! A result kept with the run that made the images.

use crate::atomic_file::{save, unwritable};
use crate::diagnostics::{Failure, Outcome};
use softdiff::metrics::{Evaluation, Made};
use softdiff::recipe::Recipe;
use softdiff::run::RunFolder;
use std::path::{Path, PathBuf};

/// Refuses a folder that is no run, and images that say another model made them.
pub fn check(folder: &Path, made: Option<&Made>) -> Outcome {
    let run = RunFolder::new(folder);
    if !run.config().is_file() {
        let failure = Failure::new(format!("{} is no run: it has no config.toml", folder.display()));
        return Err(failure.hint("give --run the folder that softdiff train wrote"));
    }
    let name = Recipe::saved(&run.config(), &[])?.name;
    match made.filter(|made| made.model != name) {
        None => Ok(()),
        Some(made) => {
            let problem = format!("these images were made by {:?}, and this run is {name:?}", made.model);
            Err(Failure::new(problem).hint("give --run the run that made them, or leave it out"))
        }
    }
}

/// Writes the result; gives its place.
pub fn result(folder: &Path, evaluation: &Evaluation, text: &[u8]) -> Result<PathBuf, Failure> {
    let folder = RunFolder::new(folder).evaluations();
    std::fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, &error))?;
    let file = folder.join(evaluation.file_name());
    save(&file, text)?;
    Ok(file)
}
