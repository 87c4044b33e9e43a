//! One look at a run.

use super::{RunState, Watch, pace};
use crate::run::{DeviceMemory, EventKind, Holder, Memory, Presence};
use serde::Serialize;
use std::collections::BTreeMap;

/// Events of which the mean loss is taken.
const RECENT: usize = 20;

/// A run at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Snapshot {
    /// The folder's name.
    pub name: String,
    /// What it is doing.
    #[serde(flatten)]
    pub state: RunState,
    /// Steps done.
    pub step: u64,
    /// Steps to do, once training has begun.
    pub steps: Option<u64>,
    /// Weights of the network.
    pub parameters: Option<u64>,
    /// Images the network has seen.
    pub images_seen: u64,
    /// The loss, once there is one.
    pub loss: Option<LossPoint>,
    /// How fast it goes, or went.
    pub throughput: Option<Throughput>,
    /// Seconds trained in all sessions, as far as checkpoints tell.
    pub trained_seconds: Option<f64>,
    /// Seconds left, while it is not over.
    pub seconds_left: Option<f64>,
    /// The process that writes it, or did when it was killed.
    pub writer: Option<Holder>,
    /// Its memory, while it runs here.
    pub memory: Option<Memory>,
    /// What it computes on.
    pub device: Option<String>,
    /// The device's memory, where it is a GPU.
    pub device_memory: Option<DeviceMemory>,
    /// Metrics by name.
    pub evaluations: BTreeMap<String, Best>,
    /// How many warnings there were.
    pub warned: u64,
    /// The last of them.
    pub warnings: Vec<StepNote>,
    /// The last preview's file, from the run's folder.
    pub preview: Option<StepNote>,
    /// The last checkpoint that was due.
    pub checkpoint: Option<StepNote>,
    /// Lines of the event stream that are no events.
    pub unreadable_lines: u64,
}

/// Text that belongs to a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepNote {
    /// Steps done.
    pub step: u64,
    /// The text.
    pub text: String,
}

/// The loss and what goes with it.
#[derive(Clone, Debug, Serialize)]
pub struct LossPoint {
    /// Of the last event.
    pub last: f64,
    /// Mean of the last twenty events.
    pub mean: f64,
    /// By bin of t, of the last event.
    pub by_time: Vec<Option<f64>>,
    /// Ends of the bins.
    pub bins: Vec<f64>,
    /// Learning rate.
    pub rate: f64,
    /// Norm of the gradient.
    pub norm: f64,
}

/// How fast a run goes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Throughput {
    /// Training steps.
    pub steps_per_second: f64,
    /// Images.
    pub images_per_second: f64,
}

/// A metric: its last value and the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Best {
    /// Step of the last value.
    pub step: u64,
    /// The last value.
    pub value: f64,
    /// The lowest value.
    pub lowest: f64,
    /// Its step.
    pub at: u64,
}

impl Watch {
    pub(super) fn snapshot(&self) -> Snapshot {
        let seen = &self.seen;
        let (mut steps, mut parameters, mut batch, mut bins) = (None, None, 0, vec![]);
        if let Some(EventKind::Started { steps: all, parameters: count, batch: images, time_bins, .. }) = &seen.started
        {
            (steps, parameters, batch, bins) = (Some(*all), Some(*count), *images, time_bins.clone());
        }
        let (writer, presence) = self.folder.writer();
        let state = RunState::of(presence, seen.stopped.as_deref(), seen.step, steps);
        let at_work = matches!(state, RunState::Training | RunState::Preparing | RunState::Elsewhere);
        let pace = self.arrivals.pace().filter(|_| at_work);
        let pace = pace.or_else(|| self.clock.pace()).or_else(|| pace::pace_by_file(&self.folder, seen.step));
        let left = steps.map(|steps| steps.saturating_sub(seen.step) as f64);
        let mut images_seen = 0;
        let loss = seen.last.as_ref().and_then(|event| match event {
            EventKind::Step { images_seen: images, loss, loss_by_time, rate, norm } => {
                images_seen = *images;
                let recent = &seen.losses[seen.losses.len().saturating_sub(RECENT)..];
                let mean = recent.iter().map(|(_, loss)| loss).sum::<f64>() / recent.len().max(1) as f64;
                let by_time = loss_by_time.clone();
                Some(LossPoint { last: *loss, mean, by_time, bins, rate: *rate, norm: *norm })
            }
            _ => None,
        });
        let session = self.folder.sessions().pop();
        let root = self.folder.root();
        let root = root.canonicalize().unwrap_or(root.into());
        Snapshot {
            name: root.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            step: seen.step,
            steps,
            parameters,
            images_seen,
            loss,
            throughput: pace.map(|pace| Throughput { steps_per_second: pace, images_per_second: pace * batch as f64 }),
            trained_seconds: self.clock.seconds(seen.step),
            seconds_left: pace.zip(left).map(|(pace, left)| left / pace).filter(|_| at_work),
            memory: writer.as_ref().filter(|_| presence == Presence::Alive).and_then(Holder::memory),
            writer,
            device_memory: session.as_ref().and_then(|session| session.device_memory),
            device: session.map(|session| session.device),
            evaluations: seen.evaluations.clone(),
            warned: seen.warned,
            warnings: seen.warnings.clone(),
            preview: seen.preview.clone(),
            checkpoint: seen.checkpoint.clone(),
            unreadable_lines: self.follower.unreadable(),
            state,
        }
    }
}
