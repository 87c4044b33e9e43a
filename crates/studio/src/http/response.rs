//! An answer with the headers that keep a page to itself.

use serde_json::{Value, json};
use softdiff::hint::explain;
use std::error::Error;
use std::io::Write;

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Well.
    Ok,
    /// Look elsewhere.
    SeeOther,
    /// Not understood.
    Bad,
    /// Not without the token.
    Unauthorised,
    /// Not from there.
    Forbidden,
    /// Nothing of that name.
    Missing,
    /// Not in that way.
    NotAllowed,
    /// Too slow.
    Slow,
    /// How long?
    NeedsLength,
    /// Too much.
    TooLarge,
    /// Understood, but it cannot be done.
    Impossible,
    /// Too often.
    TooMany,
    /// Too long a head.
    HeadTooLarge,
    /// A mistake of ours.
    Failed,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::SeeOther => "303 See Other",
            Status::Bad => "400 Bad Request",
            Status::Unauthorised => "401 Unauthorized",
            Status::Forbidden => "403 Forbidden",
            Status::Missing => "404 Not Found",
            Status::NotAllowed => "405 Method Not Allowed",
            Status::Slow => "408 Request Timeout",
            Status::NeedsLength => "411 Length Required",
            Status::TooLarge => "413 Content Too Large",
            Status::Impossible => "422 Unprocessable Content",
            Status::TooMany => "429 Too Many Requests",
            Status::HeadTooLarge => "431 Request Header Fields Too Large",
            Status::Failed => "500 Internal Server Error",
        }
    }
}

/// Nothing from elsewhere, nothing in frames, no script but the page's own.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// An answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// How it went.
    pub status: Status,
    kind: &'static str,
    body: Vec<u8>,
    more: Vec<(&'static str, String)>,
}

impl Response {
    /// A body of a kind, such as `image/png`.
    pub fn new(kind: &'static str, body: impl Into<Vec<u8>>) -> Response {
        Response { status: Status::Ok, kind, body: body.into(), more: vec![] }
    }

    /// An object.
    pub fn json(value: &Value) -> Response {
        Response::new("application/json", value.to_string())
    }

    /// What is wrong and what to do.
    pub fn problem(status: Status, problem: impl Into<String>, hint: impl Into<String>) -> Response {
        let facts = json!({ "error": problem.into(), "hint": hint.into() });
        Response { status, ..Response::json(&facts) }
    }

    /// Something that the library refused or could not do.
    pub fn failed(error: impl Error + 'static) -> Response {
        let (problem, hint) = explain(&error);
        Response::refused(problem, hint.unwrap_or_else(|| "try other values".into()))
    }

    /// A request that is understood, but cannot be done.
    pub fn refused(problem: impl Into<String>, hint: impl Into<String>) -> Response {
        Response::problem(Status::Impossible, problem, hint)
    }

    /// Look there instead.
    pub fn moved(to: &str) -> Response {
        Response { status: Status::SeeOther, ..Response::new("text/plain", "") }.with("location", to.to_owned())
    }

    /// The object that it holds.
    pub fn facts(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// One header more.
    pub fn with(mut self, name: &'static str, value: String) -> Response {
        self.more.push((name, value));
        self
    }

    /// Writes it; whoever asked may have left.
    pub fn write(&self, to: &mut dyn Write) -> std::io::Result<()> {
        let mut head = format!(
            "HTTP/1.1 {}\r\ncontent-type: {}{}\r\ncontent-length: {}\r\nconnection: close\r\n\
             cache-control: no-store\r\ncontent-security-policy: {POLICY}\r\nx-content-type-options: nosniff\r\n\
             x-frame-options: DENY\r\nreferrer-policy: no-referrer\r\ncross-origin-resource-policy: same-origin\r\n\
             cross-origin-opener-policy: same-origin\r\n",
            self.status.line(),
            self.kind,
            if self.kind.starts_with("text/") { "; charset=utf-8" } else { "" },
            self.body.len()
        );
        for (name, value) in &self.more {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        to.write_all(head.as_bytes())?;
        to.write_all(&self.body)?;
        to.flush()
    }
}
