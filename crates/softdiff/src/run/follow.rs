//! Following `events.jsonl` while another process writes it, and while a resumed run cuts it.

use super::error::{Result, RunContext};
use super::event_reader::LONGEST_LOG;
use super::{Event, RunFolder};
use softdiff_engine::regular_file;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;

/// Most bytes that are read at once.
const MOST: u64 = 4 << 20;
/// Bytes before the place read up to, which must still be the same.
const REMEMBERED: usize = 512;

/// Reads an event stream as it grows.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    /// Bytes of the complete lines read so far.
    offset: u64,
    /// The last of them.
    tail: Vec<u8>,
    unreadable: u64,
}

/// What a look at the stream brought.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct News {
    /// The stream was cut behind what was read: the events are all of it again, from the first.
    pub anew: bool,
    /// Events since the last look.
    pub events: Vec<Event>,
}

impl Follower {
    /// Follows a run's events from the first; the file need not exist yet.
    pub fn new(folder: &RunFolder) -> Follower {
        Follower { path: folder.events(), offset: 0, tail: vec![], unreadable: 0 }
    }

    /// Complete lines that were no events.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Reads what came since the last look. A line without its end is left for the next look.
    pub fn look(&mut self) -> Result<News> {
        let mut file = match regular_file::open_unlinked(File::options().read(true), &self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(self.forget()),
            Err(error) => return Err(error).doing("open", &self.path),
        };
        let length = file.metadata().doing("read", &self.path)?.len();
        if length > LONGEST_LOG {
            return Err(regular_file::too_large(LONGEST_LOG)).doing("read", &self.path);
        }
        let mut news = News::default();
        if !self.continues(&mut file).doing("read", &self.path)? {
            news = self.forget();
        }
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            file.seek(SeekFrom::Start(self.offset)).doing("read", &self.path)?;
            file.by_ref().take(MOST).read_to_end(&mut bytes).doing("read", &self.path)?;
            let full = bytes.len() as u64 == MOST;
            match bytes.iter().rposition(|&byte| byte == b'\n') {
                Some(end) => bytes.truncate(end + 1),
                // No event is that long: it is passed over.
                None if full => {}
                None => return Ok(news),
            }
            self.offset += bytes.len() as u64;
            self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(REMEMBERED)..]);
            self.tail.drain(..self.tail.len().saturating_sub(REMEMBERED));
            for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                match serde_json::from_slice(line) {
                    Ok(event) => news.events.push(event),
                    Err(_) => self.unreadable += 1,
                }
            }
            if !full {
                return Ok(news);
            }
        }
    }

    /// Whether the file still has the bytes before the place read up to.
    fn continues(&self, file: &mut File) -> std::io::Result<bool> {
        file.seek(SeekFrom::Start(self.offset - self.tail.len() as u64))?;
        let mut bytes = Vec::with_capacity(self.tail.len());
        file.take(self.tail.len() as u64).read_to_end(&mut bytes)?;
        Ok(bytes == self.tail)
    }

    fn forget(&mut self) -> News {
        let anew = self.offset > 0;
        (self.offset, self.unreadable) = (0, 0);
        self.tail.clear();
        News { anew, events: vec![] }
    }
}
