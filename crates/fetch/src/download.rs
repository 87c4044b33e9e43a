//! One file from its servers into its place.

use crate::FetchProgress;
use crate::error::{FetchError, ServerProblem};
use crate::partial::Partial;
use crate::server::{Refusal, Servers};
use softdiff_data::sets::named::PublishedFile;
use std::io::Read;
use std::path::Path;

/// How often a connection may break that has brought something.
const BREAKS: usize = 8;

/// A file that is being fetched.
pub struct Download<'a> {
    file: &'static PublishedFile,
    partial: Partial,
    servers: &'a Servers,
    report: &'a mut dyn FnMut(FetchProgress),
}

/// Why a file is not there: the server, or this machine.
pub enum Failure {
    Server(ServerProblem),
    Here(FetchError),
}

impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Failure {
        Failure::Here(error)
    }
}

impl From<ServerProblem> for Failure {
    fn from(problem: ServerProblem) -> Failure {
        Failure::Server(problem)
    }
}

/// Fetches a file, or the rest of it, verifies the whole and gives it its name.
pub fn download(
    file: &'static PublishedFile,
    place: &Path,
    servers: &Servers,
    report: &mut dyn FnMut(FetchProgress),
) -> Result<(), Failure> {
    let folder = place.parent().unwrap_or(place);
    let fail = |source| FetchError::Io { action: "make the folder", path: folder.into(), source };
    std::fs::create_dir_all(folder).map_err(fail)?;
    let partial = Partial::open(place, file.bytes)?;
    let mut download = Download { file, partial, servers, report };
    let fetched = download.check_space(folder).and_then(|()| download.complete());
    match fetched {
        Ok(()) => Ok(download.partial.publish()?),
        Err(failure) => {
            download.partial.remove_if_empty();
            Err(failure)
        }
    }
}

impl Download<'_> {
    fn check_space(&self, folder: &Path) -> Result<(), Failure> {
        let needed = self.file.bytes - self.partial.len();
        match fs4::available_space(folder) {
            Ok(free) if free < needed => Err(FetchError::NoSpace { folder: folder.into(), needed, free }.into()),
            // Where the system does not say, writing will.
            _ => Ok(()),
        }
    }

    /// Until all of it is there and verified.
    fn complete(&mut self) -> Result<(), Failure> {
        let mut resumed = self.partial.len() > 0;
        loop {
            let address = self.fetch_from_any()?;
            let (found, expected) = (self.partial.sum(), self.file.sha256);
            if found == expected {
                return Ok(());
            }
            self.partial.restart()?;
            if !resumed {
                return Err(ServerProblem::OtherContent { address, found, expected }.into());
            }
            // The beginning was perhaps that of another file.
            resumed = false;
        }
    }

    /// From the first server that has it, which it names; the first problem is the one to report.
    fn fetch_from_any(&mut self) -> Result<String, Failure> {
        let mut first = None;
        for address in self.servers.addresses(self.file) {
            match self.fetch_from(&address) {
                Ok(()) => return Ok(address),
                Err(Failure::Server(problem)) => first = first.or(Some(problem)),
                Err(failure) => return Err(failure),
            }
        }
        Err(first.expect("every file has an address").into())
    }

    /// From one server, by one connection after the other as long as each brings something.
    fn fetch_from(&mut self, address: &str) -> Result<(), Failure> {
        let mut breaks = 0;
        while self.partial.len() < self.file.bytes {
            let before = self.partial.len();
            let address = address.to_owned();
            let broken = match self.servers.get(&address, before) {
                Ok(answer) if answer.start != before && answer.start != 0 => {
                    Some("the answer begins elsewhere than was asked".to_owned())
                }
                Ok(answer) => {
                    let (found, expected) = (answer.total.unwrap_or(self.file.bytes), self.file.bytes);
                    if found != expected {
                        return Err(ServerProblem::OtherLength { address, found, expected }.into());
                    }
                    if answer.start != before {
                        self.partial.restart()?;
                    }
                    self.take(answer.body, &address)?
                }
                // What is there is no part of what the server has.
                Err(Refusal::Status(416)) if before > 0 => {
                    self.partial.restart()?;
                    continue;
                }
                Err(Refusal::Status(status)) => return Err(ServerProblem::Status { address, status }.into()),
                Err(Refusal::NoCertificates) => return Err(FetchError::NoCertificates.into()),
                Err(Refusal::Transport(reason)) => Some(reason),
            };
            if let Some(reason) = broken {
                breaks += 1;
                if self.partial.len() <= before || breaks > BREAKS {
                    return Err(ServerProblem::Unreachable { address, reason }.into());
                }
            }
        }
        Ok(())
    }

    /// Appends what comes; tells how the connection broke, if it did.
    fn take(&mut self, mut body: Box<dyn Read>, address: &str) -> Result<Option<String>, Failure> {
        let expected = self.file.bytes;
        let mut block = vec![0; 1 << 16];
        loop {
            (self.report)(FetchProgress::Fetching(self.file, self.partial.len()));
            match body.read(&mut block) {
                Ok(0) if self.partial.len() == expected => return Ok(None),
                Ok(0) => return Ok(Some("the connection ended before the file did".into())),
                Ok(count) if count as u64 > expected - self.partial.len() => {
                    self.partial.restart()?;
                    return Err(ServerProblem::TooLong { address: address.into(), expected }.into());
                }
                Ok(count) => self.partial.append(&block[..count])?,
                Err(error) => return Ok(Some(error.to_string())),
            }
        }
    }
}
