//! Models that other experiments of the same folder have trained: most of the paper's tables ask about the same blur model.

use super::EXPERIMENTS;
use crate::model::{CheckpointChoice, Model};
use crate::recipe::Recipe;
use crate::run::RunFolder;
use std::path::{Path, PathBuf};

/// A run of this recipe, name aside, that another experiment in the folder above has trained for just as many steps; none where
/// the experiment's `own` run has begun.
pub fn trained(folder: &Path, own: &Path, recipe: &Recipe) -> Option<PathBuf> {
    if RunFolder::new(own).config().is_file() {
        return None;
    }
    let all = folder.parent()?;
    let others = EXPERIMENTS.iter().map(|experiment| all.join(experiment.name)).filter(|other| other != folder);
    others.flat_map(|other| runs(&other)).find(|run| is_of(run, recipe))
}

/// The folders in an experiment's, by name.
fn runs(experiment: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(experiment).into_iter().flatten().flatten();
    let mut runs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    runs.sort();
    runs
}

fn is_of(run: &Path, recipe: &Recipe) -> bool {
    let config = RunFolder::new(run).config();
    if !config.is_file() {
        return false;
    }
    let Ok(other) = Recipe::saved(&config, &[]) else { return false };
    // The run's file states its network; that of the same images is chosen alike.
    let mut wanted = recipe.clone();
    wanted.network.adopt(&other.network);
    let same = Recipe { name: recipe.name.clone(), ..other } == wanted;
    same && Model::open_at(run, None, CheckpointChoice::Last).is_ok_and(|model| model.step == recipe.train.steps)
}
