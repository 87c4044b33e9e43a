//! The checkpoints of a run, written while training goes on.

use super::{RunSpec, RunStore, TrainError, Watcher};
use crate::checkpoint::{
    CheckpointError, CheckpointWriter, Checkpoints, FoundCheckpoints, Save, StoredCheckpoint, TrainingState,
    folder_name,
};
use crate::model::{CheckpointChoice, find_checkpoint};
use std::collections::BTreeMap;

/// Writes checkpoints and knows the last one.
pub(super) struct Saver {
    writer: CheckpointWriter,
    /// Values of the metric that decides which checkpoint is best, by step.
    scores: BTreeMap<u64, f64>,
    newest: Option<String>,
}

/// The checkpoints that a run already has.
pub(super) struct Existing {
    checkpoints: Checkpoints,
    pub newest: Option<StoredCheckpoint>,
}

impl Existing {
    /// Removes what an earlier process left unfinished, and finds the checkpoint to continue from.
    pub(super) fn find(spec: &RunSpec, store: RunStore, watcher: &mut dyn Watcher) -> Result<Existing, TrainError> {
        let RunStore { folder, lock } = store;
        let (identity, retention) = (spec.identity.clone(), spec.retention.clone());
        let checkpoints = Checkpoints::open(folder.fs(), &folder.checkpoints(), identity, retention)?;
        for name in checkpoints.remove_unfinished(lock)? {
            watcher.note(&format!("removed {name}, which an earlier process left unfinished"));
        }
        let newest = match spec.checkpoint {
            CheckpointChoice::Usual => {
                let FoundCheckpoints { newest, skipped, .. } = checkpoints.newest_valid()?;
                if let (Some(newest), Some(damaged)) = (&newest, skipped.into_iter().next()) {
                    let (problem, whole) = (Box::new(damaged.reason), newest.manifest().step);
                    return Err(TrainError::NewestDamaged { run: folder.root().into(), problem, whole });
                }
                newest
            }
            choice => {
                let metric = spec.best_by.as_deref().unwrap_or_default();
                let found = find_checkpoint(folder, metric, &spec.retention, choice);
                let (chosen, _) = found.map_err(|error| TrainError::Choice(Box::new(error)))?;
                chosen.check_belongs_to(&spec.identity)?;
                for (name, aside) in checkpoints.set_aside_after(lock, chosen.manifest().step)? {
                    watcher.note(&format!("{name} is now {aside}: delete it when it is not needed"));
                }
                Some(chosen)
            }
        };
        if let Some(stored) = &newest {
            watcher.note(&format!("continuing from {}", folder_name(stored.manifest().step)));
            stored.check_belongs_to(&spec.identity)?;
        }
        Ok(Existing { checkpoints, newest })
    }

    /// Checks that there is room for `state`, and goes on with its checkpoints.
    pub(super) fn saver(self, spec: &RunSpec, store: RunStore, state: &TrainingState) -> Result<Saver, TrainError> {
        self.checkpoints.preflight(state)?;
        let newest = self.newest.as_ref().map(|stored| stored.manifest().step);
        let scores = match (newest, &spec.best_by) {
            (Some(last), Some(metric)) => {
                store.folder.scores(metric)?.range(..=last).map(|(step, score)| (*step, score.value)).collect()
            }
            _ => BTreeMap::new(),
        };
        Ok(Saver { writer: CheckpointWriter::new(self.checkpoints)?, scores, newest: newest.map(folder_name) })
    }
}

impl Saver {
    /// The value of the deciding metric at a step.
    pub(super) fn score(&mut self, step: u64, value: f64) {
        self.scores.insert(step, value);
    }

    /// Hands a state over to be written; gives what failed after the one before was saved.
    pub(super) fn save(&mut self, state: TrainingState) -> Result<Vec<CheckpointError>, TrainError> {
        self.newest = Some(folder_name(state.progress.step));
        let before = self.writer.save(Save { state, scores: self.scores.clone() })?;
        Ok(before.map_or(vec![], |saved| saved.warnings))
    }

    /// Fails if the last save did; does not wait.
    pub(super) fn poll(&mut self) -> Result<(), TrainError> {
        self.writer.poll()?;
        Ok(())
    }

    /// The newest checkpoint, after waiting for it.
    pub(super) fn last_good(&mut self) -> Result<Option<String>, TrainError> {
        self.writer.wait()?;
        Ok(self.newest.clone())
    }
}
