//! The servers that have a file, and what one of them answers.

use crate::FetchError;
use softdiff_data::sets::named::PublishedFile;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body, http::Response};

/// To connect, and for a server that says nothing.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where files are fetched from.
pub struct Servers {
    mirror: Option<String>,
    agent: Agent,
    /// Whether a server can be known to be the one that was asked for.
    has_certificates: bool,
}

/// The rest of a file, from a byte on.
pub struct Answer {
    /// Where the body begins in the file; 0 where the server sends all of it whatever was asked.
    pub start: u64,
    /// How long the server says the whole file is.
    pub total: Option<u64>,
    pub body: Box<dyn Read>,
}

/// Why there is no answer.
pub enum Refusal {
    Transport(String),
    Status(u16),
    NoCertificates,
}

impl Servers {
    pub fn new(mirror: Option<&str>) -> Result<Servers, FetchError> {
        if let Some(mirror) = mirror.filter(|mirror| !["http://", "https://"].iter().any(|s| mirror.starts_with(s))) {
            return Err(FetchError::Mirror(mirror.to_owned()));
        }
        let mirror = mirror.map(|mirror| mirror.trim_end_matches('/').to_owned());
        let found = rustls_native_certs::load_native_certs().certs;
        let certificates: Vec<Certificate> = found.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
        Ok(Servers { mirror, agent: agent(&certificates), has_certificates: !certificates.is_empty() })
    }

    /// Where the file may be, in the order to try.
    pub fn addresses(&self, file: &PublishedFile) -> Vec<String> {
        match &self.mirror {
            Some(mirror) => vec![format!("{mirror}/{}", file.path)],
            None => file.addresses.iter().map(|&address| address.to_owned()).collect(),
        }
    }

    /// Where a person finds it.
    pub fn published(file: &PublishedFile) -> String {
        file.addresses.first().map_or_else(String::new, |&address| address.to_owned())
    }

    /// Asks for a file from byte `start` on.
    pub fn get(&self, address: &str, start: u64) -> Result<Answer, Refusal> {
        if address.starts_with("https://") && !self.has_certificates {
            return Err(Refusal::NoCertificates);
        }
        let mut request = self.agent.get(address).header("Accept-Encoding", "identity");
        if start > 0 {
            request = request.header("Range", format!("bytes={start}-"));
        }
        let response = request.call().map_err(|error| Refusal::Transport(in_full(&error)))?;
        match response.status().as_u16() {
            200 => {
                let total = header(&response, "content-length").and_then(|length| length.parse().ok());
                Ok(Answer { start: 0, total, body: Box::new(response.into_body().into_reader()) })
            }
            206 => {
                let range = header(&response, "content-range").and_then(parse_range);
                let (start, total) = range.ok_or_else(|| Refusal::Transport("an answer without its range".into()))?;
                Ok(Answer { start, total, body: Box::new(response.into_body().into_reader()) })
            }
            status => Err(Refusal::Status(status)),
        }
    }
}

/// Speaks TLS with the system's certificates, also where a server leads from an address without it to one with it.
fn agent(certificates: &[Certificate<'static>]) -> Agent {
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(certificates))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    Agent::config_builder()
        .user_agent(concat!("softdiff/", env!("CARGO_PKG_VERSION")))
        .http_status_as_error(false)
        .tls_config(tls)
        .timeout_resolve(Some(PATIENCE))
        .timeout_connect(Some(PATIENCE))
        .timeout_recv_response(Some(PATIENCE))
        .timeout_per_read(Some(PATIENCE))
        .build()
        .new_agent()
}

fn header<'a>(response: &'a Response<Body>, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// `bytes 100-199/200`: where it begins, and of how many; a length that the server does not know is `*`.
fn parse_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    Some((range.split_once('-')?.0.parse().ok()?, total.parse().ok()))
}

/// An error with its causes, in one line.
fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_nonsense_is_not() {
        assert_eq!(parse_range("bytes 100-199/200"), Some((100, Some(200))));
        assert_eq!(parse_range("bytes 100-199/*"), Some((100, None)));
        for text in ["", "bytes", "bytes */200", "bytes -5-9/10", "items 1-2/3", "bytes 99999999999999999999-/1"] {
            assert_eq!(parse_range(text), None, "{text}");
        }
    }
}
