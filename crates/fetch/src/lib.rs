//! Fetches published data (`softdiff_data::sets::named`) into a data folder.
//!
//! A file appears under its name only when it is complete and has the SHA-256 that was published. Until then it is
//! `NAME.partial`, which the next attempt continues. Never more bytes are written than the file is known to have.
#![forbid(unsafe_code)]

mod digest;
mod download;
mod error;
mod partial;
mod server;

pub use error::{FetchError, ServerProblem};

use digest::has_sum;
use download::{Failure, download};
use server::Servers;
use softdiff_data::sets::named::{NamedData, PublishedFile};
use std::path::{Path, PathBuf};

/// What [`fetch`] has done.
#[derive(Debug)]
pub struct Fetched {
    /// What to open.
    pub place: PathBuf,
    /// The files that were not there before.
    pub files: Vec<PathBuf>,
}

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub enum FetchProgress {
    /// A file that is there already is verified.
    Verifying(&'static PublishedFile),
    /// What is there under this name is another file, and will be replaced.
    Replacing(&'static PublishedFile),
    /// So many bytes of a file are there; the first time those of an earlier attempt.
    Fetching(&'static PublishedFile, u64),
}

/// Makes sure that the data is in `folder`, whole and verified: fetches what is missing from its publisher, or from `mirror`,
/// the address of a copy of a data folder.
pub fn fetch(
    data: &'static NamedData,
    folder: &Path,
    mirror: Option<&str>,
    report: &mut dyn FnMut(FetchProgress),
) -> Result<Fetched, FetchError> {
    let missing: Vec<&'static PublishedFile> =
        data.files.iter().filter(|file| !is_whole(file, folder, report)).collect();
    let mut fetched = Fetched { place: folder.join(data.place), files: Vec::new() };
    if missing.is_empty() {
        return Ok(fetched);
    }
    if let Some(other) = &data.instead
        && other.files.iter().all(|(path, sum)| has_sum(&folder.join(path), sum))
    {
        return Ok(Fetched { place: folder.join(other.place), ..fetched });
    }
    let servers = Servers::new(mirror)?;
    for (done, file) in missing.iter().enumerate() {
        let place = folder.join(file.path);
        download(file, &place, &servers, report).map_err(|failure| match failure {
            Failure::Here(error) => error,
            Failure::Server(problem) => {
                let missing = missing[done..].iter().map(|file| (Servers::published(file), folder.join(file.path)));
                FetchError::Server { problem, missing: missing.collect() }
            }
        })?;
        fetched.files.push(place);
    }
    Ok(fetched)
}

fn is_whole(file: &'static PublishedFile, folder: &Path, report: &mut dyn FnMut(FetchProgress)) -> bool {
    let path = folder.join(file.path);
    if !path.exists() {
        return false;
    }
    report(FetchProgress::Verifying(file));
    let whole = has_sum(&path, file.sha256);
    if !whole {
        report(FetchProgress::Replacing(file));
    }
    whole
}
