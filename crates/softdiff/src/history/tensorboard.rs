//! An event file of TensorBoard: records of `Event` messages (tensorflow/core/util/event.proto).
//!
//! Steps are the run's. Moments are those of the run too, computed from the beginnings of its sessions and the seconds trained
//! in its checkpoints, so that writing the file again gives the same bytes.

use super::History;
use super::protobuf::Message;
use super::record_file;
use crate::image;
use crate::run::fs::read_up_to;
use crate::run::{Event, EventKind, RunFolder};
use std::path::{Component, Path};

/// Largest preview that goes into the file.
const LARGEST_PREVIEW: u64 = 64 << 20;

/// What TensorBoard knows the file by: it looks for `tfevents` and takes the number for the time it was begun.
pub fn event_file_name(history: &History) -> String {
    let begun = history.sessions.first().map_or(0, |session| session.started_unix);
    format!("events.out.tfevents.{begun:010}.softdiff")
}

/// The content of the event file: loss, loss by bin of t, rate, norm, metrics as scalars, previews as images.
pub fn tensorboard(history: &History) -> Vec<u8> {
    let bins = history.bin_names();
    let mut file = Vec::new();
    let moment = |step| history.clock.moment(&history.sessions, step);
    record_file::append(&mut file, &file_version(moment(0)));
    for event in &history.events {
        if let Some(record) = record(&history.folder, event, &bins, moment(event.step)) {
            record_file::append(&mut file, &record);
        }
    }
    file
}

/// The first record of a file.
pub(super) fn file_version(moment: f64) -> Vec<u8> {
    Message::default().double(1, moment).bytes(3, b"brain.Event:2").finish()
}

/// The record of an event; none of one without numbers and images.
pub(super) fn record(run: &RunFolder, event: &Event, bins: &[String], moment: f64) -> Option<Vec<u8>> {
    let summary = summary(run, event, bins).finish();
    let message = Message::default().double(1, moment).integer(2, event.step).bytes(5, &summary);
    (!summary.is_empty()).then(|| message.finish())
}

fn summary(run: &RunFolder, event: &Event, bins: &[String]) -> Message {
    let summary = Message::default();
    match &event.kind {
        EventKind::Step { loss, loss_by_time, rate, norm, .. } => {
            let summary = scalar(scalar(scalar(summary, "loss", *loss), "rate", *rate), "norm", *norm);
            let bins = loss_by_time.iter().zip(bins).filter_map(|(loss, bin)| loss.map(|loss| (bin, loss)));
            bins.fold(summary, |summary, (bin, loss)| scalar(summary, &format!("loss_by_time/{bin}"), loss))
        }
        EventKind::Evaluation { metric, value, .. } => scalar(summary, &format!("evaluation/{metric}"), *value),
        EventKind::Preview { file } => match preview(run, file) {
            Some(picture) => summary.bytes(1, &Message::default().bytes(1, b"preview").bytes(4, &picture).finish()),
            None => summary,
        },
        _ => summary,
    }
}

fn scalar(summary: Message, tag: &str, value: f64) -> Message {
    summary.bytes(1, &Message::default().bytes(1, tag.as_bytes()).float(2, value as f32).finish())
}

/// `Summary.Image`: height, width, channels and the file. A preview that is gone or no picture is left out.
fn preview(run: &RunFolder, file: &str) -> Option<Vec<u8>> {
    // An event cannot point out of its run.
    if !Path::new(file).components().all(|part| matches!(part, Component::Normal(_))) {
        return None;
    }
    let path = run.root().join(file);
    let bytes = read_up_to(run.fs().as_ref(), &path, LARGEST_PREVIEW).ok()?;
    let picture = image::decode(&bytes).ok()?;
    let [height, width, channels] = [picture.height, picture.width, picture.channels].map(|n| n as u64);
    let message = Message::default().integer(1, height).integer(2, width).integer(3, channels);
    Some(message.bytes(4, &bytes).finish())
}
