//! The books of a run: what every update did, the events, and the checkpoints.

use super::saver::Saver;
use super::session_note::SessionNote;
use super::{CheckpointScore, RunSpec, TrainError, Watcher};
use crate::checkpoint::{TrainingProgress, TrainingState, folder_name};
use crate::run::{Diverged, Event, EventKind, EventLog, StopRequest, StopSignal, Stopped, Verdict};
use softdiff_engine::device::Record;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How soon a request to stop is noticed during a preview or an evaluation.
const SOON: Duration = Duration::from_millis(20);

/// Judges and books the updates. Without a store, events go to the watcher alone and nothing is saved.
pub(super) struct Recorder<'a> {
    pub progress: TrainingProgress,
    spec: &'a RunSpec<'a>,
    watcher: &'a mut dyn Watcher,
    stop: StopRequest,
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
        let stop = watcher.stop_request();
        Recorder { progress, spec, watcher, stop, files, clock: Instant::now() }
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

    /// Does `work` that takes long and leaves the run as it is. A request to stop meanwhile saves `state` at once: a process that
    /// signals end then ends without waiting for the work, any other gets the error after it. Ranks that save nothing only pass the
    /// request on to rank 0.
    pub(super) fn abandonable<T>(
        &mut self,
        state: &TrainingState,
        work: impl FnOnce(&mut dyn Watcher) -> T,
    ) -> Result<T, TrainError> {
        let Recorder { watcher, stop, files, .. } = self;
        if !self.spec.ranks.is_first() {
            return Ok(work(&mut **watcher));
        }
        let (working, waiting) = channel::<()>();
        let guard = move || {
            while waiting.recv_timeout(SOON) == Err(RecvTimeoutError::Timeout) {
                if let Some(signal) = stop.signal() {
                    let stopped = save_and_stop(files.as_mut(), state.clone(), signal);
                    return Some(stop.end(stopped.map_or_else(|error| error, TrainError::from)));
                }
            }
            None
        };
        std::thread::scope(|scope| {
            let guard = scope.spawn(guard);
            let result = work(&mut **watcher);
            drop(working);
            match guard.join() {
                Ok(None) => Ok(result),
                Ok(Some(error)) => Err(error),
                Err(panic) => resume_unwind(panic),
            }
        })
    }

    /// Lets the watcher score the weights of a checkpoint.
    pub(super) fn evaluate(&mut self, state: &TrainingState) -> Result<Vec<CheckpointScore>, TrainError> {
        let (step, weights) = (self.progress.step, state.averaged());
        self.abandonable(state, |watcher| watcher.evaluate(step, weights))?.map_err(TrainError::Evaluation)
    }

    /// Books the scores of a checkpoint.
    pub(super) fn score(&mut self, scores: Vec<CheckpointScore>) -> Result<(), TrainError> {
        for CheckpointScore { metric, value, images } in scores {
            if let Some(files) = &mut self.files
                && self.spec.best_by.as_ref() == Some(&metric)
            {
                files.saver.score(self.progress.step, value);
            }
            self.event(EventKind::Evaluation { metric, value, images })?;
        }
        Ok(())
    }

    /// Saves a checkpoint that is due. While updates are being skipped nothing is saved, so that no good checkpoint makes way for
    /// one of ruined weights.
    pub(super) fn save(&mut self, state: TrainingState) -> Result<(), TrainError> {
        if self.files.is_none() || self.progress.guard.skipped_in_a_row > 0 {
            return Ok(());
        }
        self.event(EventKind::Checkpoint { name: folder_name(self.progress.step) })?;
        if let Some(RunFiles { events, saver, .. }) = &mut self.files {
            // A resumed run relies on the events up to its checkpoint.
            events.sync()?;
            saver.save(state)?.iter().for_each(|warning| self.watcher.note(&warning.to_string()));
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

    /// Ends a run before all is done.
    pub(super) fn stopped(&mut self, state: TrainingState, signal: StopSignal) -> TrainError {
        save_and_stop(self.files.as_mut(), state, signal).map_or_else(|error| error, TrainError::from)
    }

    /// The newest checkpoint, after waiting for it.
    pub(super) fn wait(&mut self) -> Result<Option<String>, TrainError> {
        match &mut self.files {
            Some(files) => files.saver.last_good(),
            None => Ok(None),
        }
    }

    /// Whether to stop.
    pub(super) fn stop_request(&self) -> &StopRequest {
        &self.stop
    }

    fn warn(&mut self, message: String) -> Result<(), TrainError> {
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

/// Saves a state that a signal asks for. Such a checkpoint is no event: the last one, `stopped`, names it.
fn save_and_stop(
    files: Option<&mut RunFiles>,
    state: TrainingState,
    signal: StopSignal,
) -> Result<Stopped, TrainError> {
    let step = state.progress.step;
    let Some(RunFiles { events, saver, .. }) = files else {
        return Ok(Stopped { signal, step: Some(step), checkpoint: None });
    };
    // As for those that are due.
    if state.progress.guard.skipped_in_a_row == 0 {
        events.sync()?;
        saver.save(state)?;
    }
    let checkpoint = saver.last_good()?;
    let kind = EventKind::Stopped { reason: signal.to_string(), checkpoint: checkpoint.clone() };
    events.write(&Event { step, kind })?;
    Ok(Stopped { signal, step: Some(step), checkpoint })
}
