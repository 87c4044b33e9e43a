//! The training loop, the only one. What is drawn is a function of seed and step, so a resumed run equals an
//! uninterrupted one bit for bit, whatever was killed in between.

use super::from;
use super::images::CurrentGenerator;
use super::setup::{Evaluation, Preview, Setup, Watcher};
use super::{Noise, PathTable, Setting, SoftStep, TABLE_ROWS, TrainError};
use crate::checkpoint::{Checkpoints, Found, Progress, Save, TrainingState, Writer, folder_name};
use crate::data::{Batches, Flip};
use crate::image::{from_unit, grid};
use crate::model::{Condition, Generation, Predictor};
use crate::run::{Diverged, Event, EventKind, EventLog, RunFolder, RunLock, Stopped, Verdict};
use crate::sampler::SamplerError;
use softdiff_engine::device::{Learner, LearnerSpec, Objective, Record};
use softdiff_engine::{Device, Params};
use std::collections::BTreeMap;
use std::time::Instant;

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

/// Trains the run in `folder` to its last step, continuing what is there.
pub fn train(
    setup: &Setup,
    folder: &RunFolder,
    lock: &RunLock,
    device: &Device,
    watcher: &mut dyn Watcher,
) -> Result<Finished, TrainError> {
    let mut trainer = Trainer::begin(setup, folder, lock, device, watcher)?;
    let from_step = trainer.progress.step;
    while trainer.progress.step < setup.steps {
        trainer.advance()?;
    }
    trainer.writer.wait()?;
    let state = trainer.state()?;
    Ok(Finished { step: state.progress.step, from_step, seconds: state.progress.elapsed_seconds, state })
}

struct Trainer<'a> {
    setup: &'a Setup<'a>,
    folder: &'a RunFolder,
    lock: &'a RunLock,
    device: &'a Device,
    watcher: &'a mut dyn Watcher,
    learner: Learner,
    progress: Progress,
    events: EventLog,
    writer: Writer,
    /// Values of the metric that decides which checkpoint is best, by step.
    scores: BTreeMap<u64, f64>,
    last_good: Option<String>,
    preview: CurrentGenerator,
    clock: Instant,
}

impl<'a> Trainer<'a> {
    fn begin(
        setup: &'a Setup,
        folder: &'a RunFolder,
        lock: &'a RunLock,
        device: &'a Device,
        watcher: &'a mut dyn Watcher,
    ) -> Result<Self, TrainError> {
        let parts = setup.accumulate.max(1);
        if !setup.batch.is_multiple_of(parts) {
            return Err(TrainError::Parts { batch: setup.batch, parts });
        }
        let step = step_of(setup, setup.batch / parts)?;
        let checkpoints =
            Checkpoints::open(folder.fs(), &folder.checkpoints(), setup.identity.clone(), setup.retention.clone())?;
        let found = checkpoints.resume(lock)?;
        describe(&found, watcher);
        let state = match &found.newest {
            Some(stored) => {
                stored.check_belongs_to(&setup.identity)?;
                stored.restore(&Params::zeros(&step.graph), &setup.adam)?
            }
            None => match &setup.from {
                Some(place) => from::begin(place, &step.graph, setup, watcher)?,
                None => TrainingState::new(Params::initialise(&step.graph, setup.seed), setup.adam.clone()),
            },
        };
        checkpoints.preflight(&state)?;
        let last_good = found.newest.as_ref().map(|stored| folder_name(stored.manifest().step));
        let resumed = last_good.is_some().then_some(state.progress.step);
        let scores = scores(setup, folder, resumed)?;
        let (events, _) = folder.resume_events(lock, resumed)?;
        let TrainingState { params, adam, progress } = state;
        let parameters = params.numel() as u64;
        let objective =
            Objective { loss: step.loss, losses: step.losses, times: step.inputs.t, gradients: &step.gradients };
        let (graph, precision, seed, accumulate) = (&step.graph, setup.precision, setup.seed, parts as u64);
        let spec = LearnerSpec { graph, objective, params, adam, precision, seed, accumulate };
        let mut learner = Learner::new(device, spec)?;
        let batches = Batches::new(setup.dataset, setup.batch, setup.seed, Flip::None);
        learner.feed("x0", setup.dataset.shared_pixels(), &batches.order())?;
        let writer = Writer::new(checkpoints)?;
        let (preview, clock) = (CurrentGenerator::default(), Instant::now());
        let mut trainer = Trainer {
            setup,
            folder,
            lock,
            device,
            watcher,
            learner,
            progress,
            events,
            writer,
            scores,
            last_good,
            preview,
            clock,
        };
        if resumed.is_none() {
            trainer.event(EventKind::Started {
                config_hash: setup.identity.config_hash.clone(),
                schedule_hash: setup.identity.schedule_hash.clone(),
                parameters,
                batch: setup.batch as u64,
                steps: setup.steps,
                time_bins: (1..=setup.bins).map(|bin| bin as f64 / setup.bins as f64).collect(),
            })?;
        }
        Ok(trainer)
    }

    /// On to the next step at which something is due.
    fn advance(&mut self) -> Result<(), TrainError> {
        let setup = self.setup;
        let begun = self.progress.step;
        let preview = setup.preview.as_ref().map_or(0, |preview| preview.every);
        let next = [setup.log_every, setup.checkpoint_every, preview].into_iter().filter(|&every| every > 0);
        let target = next.map(|every| (begun / every + 1) * every).min().unwrap_or(setup.steps).min(setup.steps);
        let parts = setup.accumulate.max(1) as u64;
        let mut stopping = None;
        for step in begun..target {
            for part in 0..parts {
                self.learner.run(step * parts + part)?;
            }
            // A GPU is left to run ahead; its records are read when something is due.
            for record in self.learner.finished_records() {
                self.book(record)?;
            }
            self.writer.poll()?;
            stopping = self.watcher.stop();
            if stopping.is_some() {
                break;
            }
        }
        self.read_records()?;
        let elapsed = std::mem::replace(&mut self.clock, Instant::now()).elapsed();
        self.progress.elapsed_seconds += elapsed.as_secs_f64();
        let now = self.progress.step;
        if now.is_multiple_of(setup.log_every.max(1)) || now == setup.steps {
            let rate = self.learner.rate();
            if let Some(kind) = self.progress.meter.report(self.progress.images_seen, rate) {
                self.event(kind)?;
            }
        }
        let last = now == setup.steps;
        if let Some(preview) = &setup.preview
            && preview.every > 0
            && (now.is_multiple_of(preview.every) || last)
        {
            self.show(preview)?;
        }
        let due = last || setup.checkpoint_every > 0 && now.is_multiple_of(setup.checkpoint_every);
        if due {
            self.evaluate()?;
            self.event(EventKind::Checkpoint { name: folder_name(now) })?;
        }
        if due || stopping.is_some() {
            self.save()?;
        }
        match stopping {
            Some(signal) if !last => {
                self.writer.wait()?;
                let checkpoint = folder_name(now);
                let kind = EventKind::Stopped { reason: signal.to_string(), checkpoint: Some(checkpoint.clone()) };
                self.event(kind)?;
                Err(Stopped { signal, step: now, checkpoint }.into())
            }
            _ => Ok(()),
        }
    }

    /// Books what the updates did, one after the other.
    fn read_records(&mut self) -> Result<(), TrainError> {
        for record in self.learner.records()? {
            self.book(record)?;
        }
        Ok(())
    }

    fn book(&mut self, record: Record) -> Result<(), TrainError> {
        let Record { loss, norm, samples, .. } = record;
        self.progress.step += 1;
        self.progress.images_seen += self.setup.batch as u64;
        let verdict = self.progress.guard.judge(loss, norm);
        match verdict {
            Verdict::Apply => self.progress.meter.add(loss, norm, self.setup.bins, samples),
            Verdict::Spike(spike) => {
                self.progress.meter.add(loss, norm, self.setup.bins, samples);
                let (what, value, mean, z) = (spike.quantity, spike.value, spike.mean, spike.z);
                let message = format!("the {what} jumped to {value:.4e}, {z:.1} deviations above its mean {mean:.4e}");
                self.event(EventKind::Warning { message })?;
            }
            Verdict::Skip(quantity) => {
                let message = format!("the {quantity} is not finite; the update is skipped");
                self.event(EventKind::Warning { message })?;
            }
            Verdict::Stop(quantity) => {
                self.writer.wait()?;
                let (in_a_row, step) = (self.progress.guard.skipped_in_a_row, self.progress.step);
                let error = Diverged { quantity, in_a_row, step, last_good: self.last_good.clone() };
                let checkpoint = self.last_good.clone();
                self.event(EventKind::Stopped { reason: error.to_string(), checkpoint })?;
                return Err(error.into());
            }
        }
        self.watcher.step(self.progress.step, self.setup.steps, loss);
        Ok(())
    }

    fn event(&mut self, kind: EventKind) -> Result<(), TrainError> {
        let event = Event { step: self.progress.step, kind };
        self.events.write(&event)?;
        self.watcher.event(&event);
        Ok(())
    }

    fn state(&self) -> Result<TrainingState, TrainError> {
        let (params, adam) = self.learner.state()?;
        Ok(TrainingState { params, adam, progress: self.progress.clone() })
    }

    /// The events up to here must be durable before the checkpoint that relies on them.
    fn save(&mut self) -> Result<(), TrainError> {
        self.events.sync()?;
        let state = self.state()?;
        self.last_good = Some(folder_name(self.progress.step));
        if let Some(saved) = self.writer.save(Save { state, scores: self.scores.clone() })? {
            saved.warnings.iter().for_each(|warning| self.watcher.note(&warning.to_string()));
        }
        Ok(())
    }

    /// The weights that people look at: the first average, else the raw ones.
    fn weights(&self) -> Result<Params<f32>, TrainError> {
        let (params, adam) = self.learner.state()?;
        Ok(adam.ema.into_iter().next().unwrap_or(params))
    }

    fn evaluate(&mut self) -> Result<(), TrainError> {
        let weights = self.weights()?;
        let step = self.progress.step;
        let values = self.watcher.evaluate(step, &weights).map_err(TrainError::Evaluation)?;
        for Evaluation { metric, value, images } in values {
            if self.setup.best_by.as_ref() == Some(&metric) {
                self.scores.insert(step, value);
            }
            self.event(EventKind::Evaluation { metric, value, images })?;
        }
        Ok(())
    }

    fn show(&mut self, preview: &Preview) -> Result<(), TrainError> {
        let setup = self.setup;
        let weights = self.weights()?;
        let generation = Generation {
            path: &setup.path,
            prior: setup.prior,
            sampler: preview.sampler.as_ref(),
            sampling: &preview.sampling,
            batch: preview.images.clamp(1, 64),
        };
        let (prediction, path) = (setup.prediction.clone(), setup.path.clone());
        let (network, params, condition) = (&setup.network, &weights, Condition::Time);
        let predictor = Predictor { network, params, prediction, condition, path };
        let generator = self.preview.with(self.device, predictor, &generation, setup.precision)?;
        let seeds: Vec<u64> = (0..preview.images as u64).collect();
        let images = match generator.images(&generation, &seeds, &mut |_, _| {}) {
            Ok(images) => images,
            // A network in trouble is the guard's business; a preview must not end the run.
            Err(error @ SamplerError::NotFinite { .. }) => {
                return self.event(EventKind::Warning { message: format!("no preview: {error}") });
            }
            Err(error) => return Err(error.into()),
        };
        let shape = setup.path.shape();
        let columns = grid::square_columns(preview.images);
        let zoom = grid::usual_zoom(shape.width);
        let picture = grid::compose(shape.width, shape.height, shape.channels, &from_unit(&images), columns, zoom);
        let bytes = picture.to_png();
        let name = format!("preview-{:09}.png", self.progress.step);
        self.folder.publish(self.lock, &self.folder.samples().join(&name), &bytes)?;
        self.event(EventKind::Preview { file: format!("samples/{name}") })
    }
}

/// The step's graph for parts of `batch` images.
fn step_of(setup: &Setup, batch: usize) -> Result<SoftStep, TrainError> {
    let (shape, network) = (setup.path.shape(), &setup.network);
    let square = (network.image_size, network.image_size, network.image_channels);
    let images = (setup.dataset.height(), setup.dataset.width(), setup.dataset.channels());
    let text = |(h, w, c): (usize, usize, usize)| format!("{h}x{w} with {c} channels");
    if images != square || (shape.height, shape.width, shape.channels) != square {
        return Err(TrainError::Shape { images: text(images), network: text(square) });
    }
    let table = PathTable::new(&setup.path, TABLE_ROWS)?;
    let noise = if setup.stratified { Noise::Stratified } else { Noise::Drawn };
    let (objective, mirror, expected) = (&setup.objective, setup.mirror, setup.expected);
    let (prediction, centre) = (&setup.prediction, setup.path.centre());
    let setting = Setting { path: &table, objective, prediction, centre, shape, batch, noise, mirror, expected };
    Ok(SoftStep::of(network, &setting, true, setup.recompute)?)
}

fn describe(found: &Found, watcher: &mut dyn Watcher) {
    for skipped in &found.skipped {
        watcher.note(&format!("{} cannot be used: {}", folder_name(skipped.step), skipped.reason));
    }
    for name in &found.removed {
        watcher.note(&format!("removed {name}, which an earlier process left unfinished"));
    }
    if let Some(stored) = &found.newest {
        watcher.note(&format!("continuing from {}", folder_name(stored.manifest().step)));
    }
}

/// What the deciding metric was at earlier checkpoints.
fn scores(setup: &Setup, folder: &RunFolder, resumed: Option<u64>) -> Result<BTreeMap<u64, f64>, TrainError> {
    let (Some(last), Some(metric)) = (resumed, &setup.best_by) else { return Ok(BTreeMap::new()) };
    Ok(folder.scores(metric)?.range(..=last).map(|(step, score)| (*step, score.value)).collect())
}
