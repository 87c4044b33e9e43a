//! The training loop. What is random is a function of seed and step, so a resumed run equals an uninterrupted one bit for
//! bit, whatever was killed in between.

use super::from;
use super::previewer::Previewer;
use super::recorder::{Recorder, RunFiles};
use super::saver::Existing;
use super::session_note::SessionNote;
use super::together::{agree_to_stop, is_asked, of_first, require_same_weights, share_state};
use super::{ImageFeed, RunSpec, RunStore, Stepper, TrainError, Watcher};
use crate::checkpoint::TrainingState;
use crate::run::{Diverged, EventKind};
use softdiff_engine::ranks::Ranks;
use softdiff_engine::{Device, Params};

/// A run that reached its last step.
#[derive(Debug)]
pub struct Finished {
    /// Steps done.
    pub step: u64,
    /// The step it went on from.
    pub from_step: u64,
    /// Seconds of training in all sessions.
    pub seconds: f64,
    /// The weights and averages.
    pub state: TrainingState,
}

/// Trains to the last step. With a store, what it holds is continued, and events, previews and checkpoints are written there;
/// without one, nothing is written.
pub fn train(
    spec: &RunSpec,
    store: Option<RunStore>,
    device: &Device,
    watcher: &mut dyn Watcher,
) -> Result<Finished, TrainError> {
    let (mut stepper, mut recorder) = begin(spec, store, device, watcher)?;
    let mut previewer = Previewer::new(spec, store, device)?;
    let from_step = recorder.progress.step;
    let left = match store {
        Some(store) if from_step > 0 => Due::left_after(from_step, spec, store)?,
        _ => Due::default(),
    };
    let left = left.of_first(&spec.ranks)?;
    // From here on there is something to save.
    let _hold = recorder.stop_request().hold();
    match steps(spec, left, &mut stepper, &mut recorder, &mut previewer) {
        Err(TrainError::Diverged(diverged)) => {
            recorder.wait()?;
            let last_good = previewer.newest_that_samples()?;
            return Err(recorder.diverged(Diverged { last_good, ..diverged })?);
        }
        outcome => outcome?,
    }
    recorder.wait()?;
    let state = stepper.state(recorder.progress)?;
    Ok(Finished { step: state.progress.step, from_step, seconds: state.progress.elapsed_seconds, state })
}

fn steps(
    spec: &RunSpec,
    left: Due,
    stepper: &mut Stepper,
    recorder: &mut Recorder,
    previewer: &mut Previewer,
) -> Result<(), TrainError> {
    let is_gpu = stepper.learner().cuda().is_some();
    if left != Due::default() {
        left.publish(stepper.state(recorder.progress.clone())?, recorder, previewer)?;
    }
    for step in recorder.progress.step..spec.steps {
        // Draws a batch; forward, backward, update.
        stepper.run(step)?;
        recorder.add(stepper.finished())?;

        let due = Due::after(step + 1, spec);
        let stop = match due != Due::default() || is_asked(&spec.ranks, is_gpu, step + 1) {
            true => agree_to_stop(&spec.ranks, recorder.stop_request().signal())?,
            false => None,
        };
        if due == Due::default() && stop.is_none() {
            continue;
        }
        recorder.catch_up(stepper.wait()?)?;
        if due.log {
            recorder.log(stepper.rate())?;
        }
        if stop.is_none() && !due.preview && !due.checkpoint {
            continue;
        }
        let state = stepper.state(recorder.progress.clone())?;
        if stop.is_some() || due.checkpoint {
            require_same_weights(&spec.ranks, &state.params)?;
        }
        if let Some(signal) = stop {
            return Err(recorder.stopped(state, signal));
        }
        due.publish(state, recorder, previewer)?;
    }
    Ok(())
}

/// What is to be done after a step.
#[derive(Default, PartialEq)]
struct Due {
    log: bool,
    preview: bool,
    checkpoint: bool,
}

impl Due {
    fn after(step: u64, spec: &RunSpec) -> Due {
        let at = |every: u64| step == spec.steps || every > 0 && step.is_multiple_of(every);
        let preview = spec.preview.as_ref().is_some_and(|preview| preview.every > 0 && at(preview.every));
        Due { log: at(spec.log_every), preview, checkpoint: at(spec.checkpoint_every) }
    }

    /// What an earlier process was to publish after its last step and did not, because it was asked to stop.
    fn left_after(step: u64, spec: &RunSpec, store: RunStore) -> Result<Due, TrainError> {
        let due = Due { log: false, ..Due::after(step, spec) };
        for event in store.folder.read_events()? {
            let event = event?;
            let is_published = match event.kind {
                EventKind::Checkpoint { .. } => due.checkpoint,
                EventKind::Preview { .. } => !due.checkpoint,
                _ => false,
            };
            if event.step == step && is_published {
                return Ok(Due::default());
            }
        }
        Ok(due)
    }

    /// What rank 0 found to be due, on every rank.
    fn of_first(&self, ranks: &Ranks) -> Result<Due, TrainError> {
        let [log, preview, checkpoint] = [self.log, self.preview, self.checkpoint].map(|due| of_first(ranks, due));
        Ok(Due { log: log?, preview: preview?, checkpoint: checkpoint? })
    }

    /// Makes the preview and the scores, and saves the checkpoint. Events are written when all is made: what a request to stop
    /// interrupts is made anew when the run goes on, and then the events are those of an uninterrupted run.
    fn publish(
        &self,
        state: TrainingState,
        recorder: &mut Recorder,
        previewer: &mut Previewer,
    ) -> Result<(), TrainError> {
        let preview = if self.preview { previewer.show(&state, recorder)? } else { None };
        let scores = if self.checkpoint { recorder.evaluate(&state)? } else { vec![] };
        if let Some(event) = preview {
            recorder.event(event)?;
        }
        recorder.score(scores)?;
        if self.checkpoint {
            recorder.save(state)?;
        }
        Ok(())
    }
}

/// Restores the newest checkpoint of the store, or begins anew.
fn begin<'a>(
    spec: &'a RunSpec,
    store: Option<RunStore<'a>>,
    device: &'a Device,
    watcher: &'a mut dyn Watcher,
) -> Result<(Stepper, Recorder<'a>), TrainError> {
    let step = spec.step()?;
    let existing = match store {
        Some(store) => Some(Existing::find(spec, store, watcher)?),
        None => None,
    };
    let newest = existing.as_ref().and_then(|existing| existing.newest.as_ref());
    let resumed = newest.map(|stored| stored.manifest().step);
    let state = match (newest, &spec.from) {
        (Some(stored), _) => stored.restore(&Params::zeros(&step.graph), &spec.adam)?,
        // The others are given rank 0's.
        (None, Some(start)) if spec.ranks.is_first() => from::begin(start, &step.graph, &spec.adam, watcher)?,
        (None, _) => spec.new_state(&step),
    };
    let state = share_state(&spec.ranks, state)?;
    let files = match (store, existing) {
        (Some(store), Some(existing)) => {
            let saver = existing.saver(spec, store, &state)?;
            let (events, repaired) = store.folder.resume_events(store.lock, resumed)?;
            let (from, to) = repaired.gap;
            if spec.log_every > 0 && to - from > spec.log_every {
                let file = store.folder.events();
                watcher.note(&format!(
                    "{}: the events of steps {from} to {to} are missing; plots and reports have a gap there",
                    file.display()
                ));
            }
            let note = SessionNote::begin(store, device, state.progress.step)?;
            Some(RunFiles { events, saver, note })
        }
        _ => None,
    };
    let TrainingState { params, adam, progress } = state;
    let parameters = params.numel() as u64;
    let stepper = Stepper::new(spec, &step, (params, adam), device, ImageFeed::Dataset)?;
    let mut recorder = Recorder::new(spec, progress, files, watcher);
    if resumed.is_none() {
        recorder.started(parameters)?;
    }
    Ok((stepper, recorder))
}
