//! An event file of TensorBoard that grows with a run.
//!
//! Each process that trains writes a file of its own, as TensorBoard expects after a restart, named by its beginning and number as in the
//! run's `env.json`. A record is written at once, so a process that is killed leaves at most one torn record at the end, where readers
//! stop. What earlier processes wrote beyond the checkpoint that the run goes on from is cut off, so that no step is there twice.

use super::History;
use super::protobuf::Message;
use super::record_file;
use super::tensorboard::{file_version, record, tensorboard};
use crate::run::{Event, RunFolder, RunSession};
use softdiff_engine::regular_file;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Longest event file of an earlier process that is read.
const LONGEST: u64 = 4 << 30;
/// `SessionLog.START`: readers forget what they know of this step and later ones.
const START: u64 = 1;

/// Writes the events of this process.
pub struct LiveEventFile {
    run: RunFolder,
    to: PathBuf,
    /// The file, from the first event on, and the names of the bins of t.
    open: Option<(File, Vec<String>)>,
}

impl LiveEventFile {
    /// Writes into the folder `to`, which is made with the first event.
    pub fn new(run: &RunFolder, to: &Path) -> LiveEventFile {
        LiveEventFile { run: run.clone(), to: to.into(), open: None }
    }

    /// Adds an event that was just written to the run's own.
    pub fn add(&mut self, event: &Event) -> io::Result<()> {
        let Some((file, bins)) = &mut self.open else { return self.begin(event) };
        match record(&self.run, event, bins, now()) {
            Some(record) => append(file, &record),
            None => Ok(()),
        }
    }

    /// Begins the file of this process with its first event.
    fn begin(&mut self, first: &Event) -> io::Result<()> {
        let history = History::read(&self.run).map_err(io::Error::other)?;
        let Some((session, earlier)) = history.sessions.split_last() else {
            return Err(io::Error::other("the run does not say which process writes it"));
        };
        std::fs::create_dir_all(&self.to)?;
        let mut continues = false;
        for path in earlier.iter().map(|session| self.to.join(file_name(session))) {
            if path.symlink_metadata().is_ok() {
                continues = true;
                cut(&path, session.from_step)?;
            }
        }
        let bins = history.bin_names();
        let path = self.to.join(file_name(session));
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        if continues {
            let log = Message::default().integer(1, START).finish();
            let start = Message::default().double(1, now()).integer(2, session.from_step + 1).bytes(7, &log).finish();
            let mut content = Vec::new();
            for record in [Some(file_version(now())), Some(start), record(&self.run, first, &bins, now())] {
                record.iter().for_each(|record| record_file::append(&mut content, record));
            }
            file.write_all(&content)?;
        } else {
            // All there is, this event included.
            file.write_all(&tensorboard(&history))?;
        }
        self.open = Some((file, bins));
        Ok(())
    }
}

fn append(file: &mut File, record: &[u8]) -> io::Result<()> {
    let mut framed = Vec::new();
    record_file::append(&mut framed, record);
    file.write_all(&framed)
}

fn file_name(session: &RunSession) -> String {
    format!("events.out.tfevents.{:010}.{:010}.softdiff", session.started_unix, session.process.pid)
}

/// Cuts a file before its first record that is torn or of a step after `last`.
fn cut(path: &Path, last: u64) -> io::Result<()> {
    let bytes = regular_file::read(path, LONGEST)?;
    let kept = record_file::records(&bytes).take_while(|record| step_of(record).is_some_and(|step| step <= last));
    let end: usize = kept.map(|record| record_file::framed(record.len())).sum();
    if end < bytes.len() {
        OpenOptions::new().write(true).open(path)?.set_len(end as u64)?;
    }
    Ok(())
}

/// The step of an event message of ours: a double, then the step where it is not 0.
fn step_of(record: &[u8]) -> Option<u64> {
    let rest = record.get(9..)?;
    let Some((0x10, step)) = rest.split_first().map(|(key, rest)| (*key, rest)) else { return Some(0) };
    let mut value = 0;
    for (place, byte) in step.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7F) << (7 * place).min(63);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_is_read_from_a_message() {
        for step in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(step_of(&Message::default().double(1, 5.5).integer(2, step).finish()), Some(step));
        }
        assert_eq!(step_of(&file_version(1.0)), Some(0));
        assert_eq!(step_of(&[0; 3]), None);
        assert_eq!(step_of(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0x80]), None);
    }
}
