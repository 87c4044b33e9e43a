//! Why data could not be fetched.

use softdiff_engine::Hint;
use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// What can go wrong on the way from the publisher into the data folder.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The fields are named as the messages use them.
pub enum FetchError {
    /// The server, or the way to it. `missing` has the address of each file that is not there yet, and its place.
    #[error("{problem}")]
    Server { problem: ServerProblem, missing: Vec<(String, PathBuf)> },
    /// The disk is full.
    #[error("{} bytes are needed in {}, and {free} are free", needed, folder.display())]
    NoSpace { folder: PathBuf, needed: u64, free: u64 },
    /// Somebody else fetches the same file.
    #[error("another process is fetching {}", place.display())]
    Busy { place: PathBuf },
    /// An address that is none.
    #[error("SOFTDIFF_MIRROR is {0:?}, which does not begin with http:// or https://")]
    Mirror(String),
    /// No certificates to trust a server by.
    #[error("no certificates of authorities were found on this machine, so that no server can be trusted")]
    NoCertificates,
    /// The operating system.
    #[error("cannot {action} {}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl Hint for FetchError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            FetchError::Server { problem, missing } => {
                let changed = !matches!(problem, ServerProblem::Unreachable { .. } | ServerProblem::Status { .. });
                let changed = if changed { "nothing of it was kept; " } else { "" };
                format!("{changed}{}", by_hand(missing)).into()
            }
            FetchError::NoSpace { .. } => "free space there, or set SOFTDIFF_DATA to a folder elsewhere".into(),
            FetchError::Busy { .. } => "wait for it".into(),
            FetchError::Mirror(_) => {
                "give the address of a copy of a data folder, such as http://localhost:8000, or unset it".into()
            }
            FetchError::NoCertificates => {
                "install them (Debian: apt install ca-certificates), or name a file of them in SSL_CERT_FILE".into()
            }
            FetchError::Io { .. } => "check the folder and its permissions, or set SOFTDIFF_DATA to another one".into(),
        })
    }
}

fn by_hand(missing: &[(String, PathBuf)]) -> String {
    let files: String = missing.iter().map(|(from, to)| format!("\n  {from}\n  to {}", to.display())).collect();
    format!(
        "without a network, download elsewhere{files}\nSOFTDIFF_DATA chooses the folder, SOFTDIFF_MIRROR another server"
    )
}

/// What is wrong with a server or its file.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // As above.
pub enum ServerProblem {
    /// It cannot be reached, or the connection broke.
    #[error("cannot fetch {address}: {reason}")]
    Unreachable { address: String, reason: String },
    /// It does not have the file.
    #[error("cannot fetch {address}: the server answers with status {status}")]
    Status { address: String, status: u16 },
    /// It has a file of another length.
    #[error("{address} has {found} bytes, and the published file {expected}")]
    OtherLength { address: String, found: u64, expected: u64 },
    /// It sends more than the file is known to have.
    #[error("{address} does not end after the {expected} bytes of the published file")]
    TooLong { address: String, expected: u64 },
    /// It has another file.
    #[error("{address} has the SHA-256 {found}, and the published file {expected}")]
    OtherContent { address: String, found: String, expected: &'static str },
}
