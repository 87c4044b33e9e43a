//! The books of a run: what every update did, the events, and the checkpoints.

use super::saver::Saver;
use super::session_note::SessionNote;
use super::{CheckpointScore, RunSpec, TrainError, Watcher};
use crate::checkpoint::{TrainingProgress, TrainingState, folder_name};
use crate::run::{Diverged, Event, EventKind, EventLog, StopSignal, Stopped, Verdict};
use softdiff_engine::device::Record;
use std::path::Path;
use std::time::Instant;

/// Judges and books the updates. Without a store, events go to the watcher alone and nothing is saved.
pub(super) struct Recorder<'a> {
    pub progress: TrainingProgress,
    spec: &'a RunSpec<'a>,
    watcher: &'a mut dyn Watcher,
    files: Option<RunFiles<'a>>,
    clock: Instant,
}

/// What a recorder writes.
pub(super) struct RunFiles<'a> {
    pub events: EventLog,
    pub saver: Saver,
    pub note: SessionNote<'a>,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(
        spec: &'a RunSpec,
        progress: TrainingProgress,
        files: Option<RunFiles<'a>>,
        watcher: &'a mut dyn Watcher,
    ) -> Recorder<'a> {
        Recorder { progress, spec, watcher, files, clock: Instant::now() }
    }

    /// The first event of a run.
    pub(super) fn started(&mut self, parameters: u64) -> Result<(), TrainError> {
        let RunSpec { identity, batch, steps, bins, .. } = self.spec;
        self.event(EventKind::Started {
            config_hash: identity.config_hash.clone(),
            schedule_hash: identity.schedule_hash.clone(),
            parameters,
            batch: *batch as u64,
            steps: *steps,
            time_bins: (1..=*bins).map(|bin| bin as f64 / *bins as f64).collect(),
        })
    }

    /// Books what the updates did, one after the other.
    pub(super) fn add(&mut self, records: Vec<Record>) -> Result<(), TrainError> {
        for record in records {
            self.judge(record)?;
        }
        match &mut self.files {
            Some(files) => files.saver.poll(),
            None => Ok(()),
        }
    }

    fn judge(&mut self, Record { loss, norm, samples, .. }: Record) -> Result<(), TrainError> {
        self.progress.step += 1;
        self.progress.images_seen += self.spec.batch as u64;
        match self.progress.guard.judge(loss, norm) {
            Verdict::Apply => self.progress.meter.add(loss, norm, self.spec.bins, samples),
            Verdict::Spike(spike) => {
                self.progress.meter.add(loss, norm, self.spec.bins, samples);
                let (what, value, mean, z) = (spike.quantity, spike.value, spike.mean, spike.z);
                let message = format!("the {what} jumped to {value:.4e}, {z:.1} deviations above its mean {mean:.4e}");
                self.warn(message)?;
            }
            Verdict::Skip(quantity) => self.warn(format!("the {quantity} is not finite; the update is skipped"))?,
            Verdict::Stop(quantity) => {
                let (in_a_row, step) = (self.progress.guard.skipped_in_a_row, self.progress.step);
                return Err(Diverged { quantity, in_a_row, step, last_good: None }.into());
            }
        }
        self.watcher.step(self.progress.step, self.spec.steps, loss);
        Ok(())
    }

    /// Books `records` after all updates were waited for, and the time they took.
    pub(super) fn catch_up(&mut self, records: Vec<Record>) -> Result<(), TrainError> {
        self.add(records)?;
        let elapsed = std::mem::replace(&mut self.clock, Instant::now()).elapsed();
        self.progress.elapsed_seconds += elapsed.as_secs_f64();
        Ok(())
    }

    /// The averages since the last step event.
    pub(super) fn log(&mut self, rate: f64) -> Result<(), TrainError> {
        if let Some(kind) = self.progress.meter.report(self.progress.images_seen, rate) {
            self.event(kind)?;
            self.files.iter_mut().for_each(|files| files.note.memory());
        }
        Ok(())
    }

    /// Lets the watcher score the weights of a checkpoint.
    pub(super) fn evaluate(&mut self, state: &TrainingState) -> Result<(), TrainError> {
        let step = self.progress.step;
        let values = self.watcher.evaluate(step, state.averaged()).map_err(TrainError::Evaluation)?;
        for CheckpointScore { metric, value, images } in values {
            if let Some(files) = &mut self.files
                && self.spec.best_by.as_ref() == Some(&metric)
            {
                files.saver.score(step, value);
            }
            self.event(EventKind::Evaluation { metric, value, images })?;
        }
        Ok(())
    }

    /// Saves a checkpoint; `due` ones are an event, those of a stopped run are not. While updates are being skipped nothing is
    /// saved, so that no good checkpoint makes way for one of ruined weights.
    pub(super) fn save(&mut self, state: TrainingState, due: bool) -> Result<(), TrainError> {
        if self.files.is_none() || self.progress.guard.skipped_in_a_row > 0 {
            return Ok(());
        }
        if due {
            self.event(EventKind::Checkpoint { name: folder_name(self.progress.step) })?;
        }
        if let Some(RunFiles { events, saver, .. }) = &mut self.files {
            // A resumed run relies on the events up to its checkpoint.
            events.sync()?;
            saver.save(state, self.watcher)?;
        }
        Ok(())
    }

    /// Ends a run that diverged.
    pub(super) fn diverged(&mut self, diverged: Diverged) -> Result<TrainError, TrainError> {
        let name = diverged.last_good.as_deref().and_then(Path::file_name);
        let checkpoint = name.map(|name| name.to_string_lossy().into_owned());
        self.event(EventKind::Stopped { reason: diverged.to_string(), checkpoint })?;
        Ok(diverged.into())
    }

    /// Ends a run before its last step.
    pub(super) fn stopped(&mut self, signal: StopSignal) -> Result<TrainError, TrainError> {
        let step = self.progress.step;
        let checkpoint = self.wait()?;
        self.event(EventKind::Stopped { reason: signal.to_string(), checkpoint: checkpoint.clone() })?;
        Ok(Stopped { signal, step, checkpoint }.into())
    }

    /// The newest checkpoint, after waiting for it.
    pub(super) fn wait(&mut self) -> Result<Option<String>, TrainError> {
        match &mut self.files {
            Some(files) => files.saver.last_good(),
            None => Ok(None),
        }
    }

    pub(super) fn stop_requested(&self) -> Option<StopSignal> {
        self.watcher.stop()
    }

    pub(super) fn warn(&mut self, message: String) -> Result<(), TrainError> {
        self.event(EventKind::Warning { message })
    }

    pub(super) fn event(&mut self, kind: EventKind) -> Result<(), TrainError> {
        let event = Event { step: self.progress.step, kind };
        if let Some(files) = &mut self.files {
            files.events.write(&event)?;
        }
        self.watcher.event(&event);
        Ok(())
    }
}
