//! The layout of a run's folder.

use super::error::{Result, RunContext};
use super::event_log::{EventLog, Repaired};
use super::event_reader::Events;
use super::fs::{Disk, Fs, publish, read_up_to, read_within};
use super::lock::RunLock;
use super::session::RunSession;
use crate::prior::{LARGEST_PRIOR, Prior, PriorError};
use crate::schedule::{LARGEST_SCHEDULE, Schedule, ScheduleError};
use crate::spectrum::{LARGEST_SPECTRUM, SPECTRUM_FILE, Spectrum, SpectrumError};
use softdiff_engine::regular_file;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A run's folder.
#[derive(Clone, Debug)]
pub struct RunFolder {
    fs: Arc<dyn Fs>,
    root: PathBuf,
}

/// Longest `env.json` that is read: some ten thousand sessions.
const LONGEST_ENV: u64 = 4 << 20;

impl RunFolder {
    /// The run in `root`, on disk. Nothing is made or read yet.
    pub fn new(root: &Path) -> RunFolder {
        RunFolder::on(Arc::new(Disk), root)
    }

    /// The same on another file system.
    pub fn on(fs: Arc<dyn Fs>, root: &Path) -> RunFolder {
        RunFolder { fs, root: root.into() }
    }

    /// Refuses a run that has a symbolic link where it has a folder: what it leads to is not the run's.
    pub fn refuse_links(&self) -> Result<()> {
        for folder in [self.checkpoints(), self.samples(), self.evaluations()] {
            regular_file::refuse_link(&folder).doing("open", &folder)?;
        }
        Ok(())
    }

    /// Makes what is missing and takes the run's lock.
    pub fn lock(&self) -> Result<RunLock> {
        self.refuse_links()?;
        for folder in [self.root.clone(), self.checkpoints(), self.samples()] {
            self.fs.create_folder(&folder).doing("make", &folder)?;
        }
        RunLock::acquire(&self.root.join("run.lock"))
    }

    /// The file system it is on.
    pub fn fs(&self) -> Arc<dyn Fs> {
        self.fs.clone()
    }
    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// The resolved recipe.
    pub fn config(&self) -> PathBuf {
        self.root.join("config.toml")
    }
    /// The stream of events.
    pub fn events(&self) -> PathBuf {
        self.root.join("events.jsonl")
    }
    /// The levels of corruption.
    pub fn schedule(&self) -> PathBuf {
        self.root.join("schedule.json")
    }
    /// The distribution of x_1.
    pub fn prior(&self) -> PathBuf {
        self.root.join("prior.safetensors")
    }
    /// The mean and variance of the images per frequency, where the network is preconditioned by them.
    pub fn spectrum(&self) -> PathBuf {
        self.root.join(SPECTRUM_FILE)
    }
    /// The checkpoints.
    pub fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }
    /// Previews and samples.
    pub fn samples(&self) -> PathBuf {
        self.root.join("samples")
    }
    /// Results of evaluations of its images.
    pub fn evaluations(&self) -> PathBuf {
        self.root.join("evaluations")
    }
    /// Who worked on it.
    pub fn env(&self) -> PathBuf {
        self.root.join("env.json")
    }
    /// The report.
    pub fn report(&self) -> PathBuf {
        self.root.join("report.html")
    }

    /// Puts a file of the run in its place, complete or not at all.
    pub fn publish(&self, _held: &RunLock, path: &Path, bytes: &[u8]) -> Result<()> {
        publish(self.fs.as_ref(), path, bytes).doing("write", path)
    }

    /// Which images the run learns from.
    pub fn data(&self) -> PathBuf {
        self.root.join("data.json")
    }

    /// The recipe that an unfinished preparation is of.
    pub fn preparation(&self) -> PathBuf {
        self.root.join("preparation.toml")
    }

    /// Reads the distribution of x_1.
    pub fn read_prior(&self) -> std::result::Result<Prior, PriorError> {
        let path = self.prior();
        let fail =
            |e: std::io::Error| PriorError::File { path: path.display().to_string(), problem: e.to_string().into() };
        Prior::from_file(&read_within(self.fs.as_ref(), &path, LARGEST_PRIOR).map_err(fail)?, &path)
    }

    /// Reads the schedule; none where the run has none.
    pub fn read_schedule(&self) -> std::result::Result<Option<Schedule>, ScheduleError> {
        let path = self.schedule();
        if !path.exists() {
            return Ok(None);
        }
        let fail =
            |e: std::io::Error| ScheduleError::File { path: path.display().to_string(), problem: e.to_string().into() };
        Schedule::from_file(&read_within(self.fs.as_ref(), &path, LARGEST_SCHEDULE).map_err(fail)?, &path).map(Some)
    }

    /// Reads the mean and variance per frequency; none where the run has none.
    pub fn read_spectrum(&self) -> std::result::Result<Option<Spectrum>, SpectrumError> {
        let path = self.spectrum();
        if !path.exists() {
            return Ok(None);
        }
        let fail = |e: std::io::Error| SpectrumError { file: path.clone(), problem: e.to_string() };
        let bytes = read_within(self.fs.as_ref(), &path, LARGEST_SPECTRUM).map_err(fail)?;
        Spectrum::from_file(&bytes, &path).map(Some)
    }

    /// The events so far.
    pub fn read_events(&self) -> Result<Events> {
        Events::open(self.fs.as_ref(), &self.events())
    }

    /// The event stream to write to, cut to what belongs to a state after `step`; none for a new run.
    pub fn resume_events(&self, _held: &RunLock, step: Option<u64>) -> Result<(EventLog, Repaired)> {
        EventLog::resume(self.fs.as_ref(), &self.events(), step)
    }

    /// The processes that worked on this run; empty when `env.json` is missing or garbled, for it is a note only.
    pub fn sessions(&self) -> Vec<RunSession> {
        let bytes = read_up_to(self.fs.as_ref(), &self.env(), LONGEST_ENV).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Notes that this process works on the run.
    pub fn add_session(&self, held: &RunLock, session: RunSession) -> Result<()> {
        let mut sessions = self.sessions();
        sessions.push(session);
        self.write_sessions(held, &sessions)
    }

    /// Changes the note of the last process, which is this one.
    pub fn amend_session(&self, held: &RunLock, change: impl FnOnce(&mut RunSession)) -> Result<()> {
        let mut sessions = self.sessions();
        if let Some(session) = sessions.last_mut() {
            change(session);
        }
        self.write_sessions(held, &sessions)
    }

    fn write_sessions(&self, held: &RunLock, sessions: &[RunSession]) -> Result<()> {
        let Ok(mut text) = serde_json::to_string_pretty(sessions) else { unreachable!("sessions are always JSON") };
        text.push('\n');
        self.publish(held, &self.env(), text.as_bytes())
    }
}
