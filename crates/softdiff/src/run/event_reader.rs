//! Reading `events.jsonl`, also while another process writes it.

use super::error::{Result, RunContext, RunError};
use super::event::Event;
use super::fs::Fs;
use std::io::{BufRead, BufReader, Read, Take};
use std::path::{Path, PathBuf};

/// Longest line that is read.
const LONGEST: u64 = 1 << 20;
/// Longest log that is read: some millions of events.
pub(super) const LONGEST_LOG: u64 = 1 << 30;

/// The events of a run, in order. A last line without its end is not (yet) an event and ends the iteration.
pub struct Events {
    file: BufReader<Take<Box<dyn Read>>>,
    path: PathBuf,
    line: u64,
    offset: u64,
}

impl Events {
    /// Opens an event stream.
    pub fn open(fs: &dyn Fs, path: &Path) -> Result<Events> {
        let file = BufReader::new(fs.open(path).doing("open", path)?.take(LONGEST_LOG));
        Ok(Events { file, path: path.into(), line: 0, offset: 0 })
    }

    /// Bytes of the complete lines read so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    fn next_line(&mut self) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        self.file.by_ref().take(LONGEST).read_until(b'\n', &mut line).doing("read", &self.path)?;
        if line.pop() == Some(b'\n') {
            self.line += 1;
            self.offset += line.len() as u64 + 1;
            return Ok(Some(line));
        }
        if line.len() as u64 + 1 == LONGEST {
            return Err(self.problem(format!("longer than {LONGEST} bytes"), self.line + 1));
        }
        Ok(None)
    }

    fn problem(&self, problem: String, line: u64) -> RunError {
        RunError::Event { path: self.path.clone(), line, problem }
    }
}

impl Iterator for Events {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        let line = self.next_line().transpose()?;
        Some(line.and_then(|line| serde_json::from_slice(&line).map_err(|e| self.problem(e.to_string(), self.line))))
    }
}
