//! A result kept with the run that made the images.

use crate::atomic_file::{save, unwritable};
use crate::diagnostics::Failure;
use softdiff::metrics::Evaluation;
use softdiff::recipe::Recipe;
use softdiff::run::RunFolder;
use std::path::{Path, PathBuf};

/// The run in a folder.
pub fn open(folder: &Path) -> Result<(RunFolder, Recipe), Failure> {
    let run = RunFolder::new(folder);
    if !run.config().is_file() {
        let failure = Failure::new(format!("{} is no run: it has no config.toml", folder.display()));
        return Err(failure.hint("give --run the folder that softdiff train wrote"));
    }
    let recipe = Recipe::read(&run.config(), &[])?;
    Ok((run, recipe))
}

/// Writes the result, unless the images say that another model made them; gives its place.
pub fn result(run: &RunFolder, recipe: &Recipe, evaluation: &Evaluation, text: &[u8]) -> Result<PathBuf, Failure> {
    if let Some(made) = evaluation.made.as_ref().filter(|made| made.model != recipe.name) {
        let problem = format!("these images were made by {:?}, and this run is {:?}", made.model, recipe.name);
        return Err(Failure::new(problem).hint("give --run the run that made them, or leave it out"));
    }
    let folder = run.evaluations();
    std::fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, &error))?;
    let file = folder.join(evaluation.file_name());
    save(&file, text)?;
    Ok(file)
}
