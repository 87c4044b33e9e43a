//! Writing `events.jsonl`, and mending it before a run goes on.

use super::error::{Result, RunContext, RunError};
use super::event::{Event, EventKind};
use super::event_reader::{Events, LONGEST_LOG};
use super::fs::{Fs, FsFile};
use softdiff_engine::regular_file;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Appends events: one line, one write, at once visible to readers.
pub struct EventLog {
    path: PathBuf,
    /// None after a failed write, which may have left half a line.
    file: Option<Box<dyn FsFile>>,
}

/// What was done to an event stream before it is continued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Events that stayed.
    pub kept: u64,
    /// Bytes that were cut: events after the checkpoint, and a torn line.
    pub cut_bytes: u64,
    /// The longest stretch of steps without an event, from one step to another.
    pub gap: (u64, u64),
}

impl EventLog {
    /// Opens the stream to continue after step `step`, or to begin at 0.
    ///
    /// Everything from the first event on that an uninterrupted run would not have written by then is cut: later
    /// steps, the `stopped` of the earlier process, a torn line.
    pub fn resume(fs: &dyn Fs, path: &Path, step: Option<u64>) -> Result<(EventLog, Repaired)> {
        let file = fs.append(path).doing("open", path)?;
        // A new file's name must last too: a checkpoint relies on the events before it.
        let folder = path.parent().unwrap_or(Path::new("."));
        fs.sync_folder(folder).doing("sync", folder)?;
        let length = length(fs, path)?;
        let (kept, end, gap) = measure(fs, path, step)?;
        if end < length {
            fs.truncate(path, end).doing("repair", path)?;
        }
        Ok((EventLog { path: path.into(), file: Some(file) }, Repaired { kept, cut_bytes: length - end, gap }))
    }

    /// Appends one event.
    pub fn write(&mut self, event: &Event) -> Result<()> {
        let Ok(mut line) = serde_json::to_vec(event) else { unreachable!("an event is always JSON") };
        line.push(b'\n');
        let file = self.file.as_mut().ok_or_else(|| RunError::EventsClosed { path: self.path.clone() })?;
        let written = file.write_all(&line).doing("write to", &self.path);
        if written.is_err() {
            self.file = None;
        }
        written
    }

    /// Makes all events so far durable: to be called before a checkpoint is saved, which relies on them.
    pub fn sync(&mut self) -> Result<()> {
        let file = self.file.as_mut().ok_or_else(|| RunError::EventsClosed { path: self.path.clone() })?;
        file.sync().doing("sync", &self.path)
    }
}

/// How many events stay, where they end, and the longest stretch of steps without any.
fn measure(fs: &dyn Fs, path: &Path, step: Option<u64>) -> Result<(u64, u64, (u64, u64))> {
    let Some(last) = step else { return Ok((0, 0, (0, 0))) };
    let mut events = Events::open(fs, path)?;
    let (mut kept, mut end) = (0, 0);
    let (mut seen, mut gap) = (0, (0, 0));
    let mut reach = |step: u64| {
        if step.saturating_sub(seen) > gap.1 - gap.0 {
            gap = (seen, step);
        }
        seen = step;
        gap
    };
    let mut damage = None;
    while let Some(event) = events.next() {
        match event {
            Ok(Event { kind: EventKind::Stopped { .. }, .. }) => break,
            Ok(Event { step, .. }) if step > last => break,
            Ok(Event { step, .. }) => match damage {
                None => {
                    (kept, end) = (kept + 1, events.offset());
                    reach(step);
                }
                // A power cut damages the end of the file; damage before a good line is somebody's doing.
                Some(error) => return Err(error),
            },
            Err(error @ RunError::Event { .. }) => damage = damage.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    Ok((kept, end, reach(last)))
}

/// The bytes of the log; more than are read of any is an error.
fn length(fs: &dyn Fs, path: &Path) -> Result<u64> {
    let mut file = fs.open(path).doing("open", path)?.take(LONGEST_LOG + 1);
    match io::copy(&mut file, &mut io::sink()).doing("read", path)? {
        length if length > LONGEST_LOG => Err(regular_file::too_large(LONGEST_LOG)).doing("read", path),
        length => Ok(length),
    }
}
