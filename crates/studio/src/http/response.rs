//! An answer with the headers that keep a page to itself.

use serde_json::{Value, json};
use softdiff::hint::explain;
use std::error::Error;
use std::io::Write;

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpStatus {
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

impl HttpStatus {
    fn line(self) -> &'static str {
        match self {
            HttpStatus::Ok => "200 OK",
            HttpStatus::SeeOther => "303 See Other",
            HttpStatus::Bad => "400 Bad HttpRequest",
            HttpStatus::Unauthorised => "401 Unauthorized",
            HttpStatus::Forbidden => "403 Forbidden",
            HttpStatus::Missing => "404 Not Found",
            HttpStatus::NotAllowed => "405 HttpMethod Not Allowed",
            HttpStatus::Slow => "408 HttpRequest Timeout",
            HttpStatus::NeedsLength => "411 Length Required",
            HttpStatus::TooLarge => "413 Content Too Large",
            HttpStatus::Impossible => "422 Unprocessable Content",
            HttpStatus::TooMany => "429 Too Many Requests",
            HttpStatus::HeadTooLarge => "431 HttpRequest Header Fields Too Large",
            HttpStatus::Failed => "500 Internal Server Error",
        }
    }
}

/// Nothing from elsewhere, nothing in frames, no script but the page's own.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// An answer.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    /// How it went.
    pub status: HttpStatus,
    kind: &'static str,
    body: Vec<u8>,
    more: Vec<(&'static str, String)>,
}

impl HttpResponse {
    /// A body of a kind, such as `image/png`.
    pub fn new(kind: &'static str, body: impl Into<Vec<u8>>) -> HttpResponse {
        HttpResponse { status: HttpStatus::Ok, kind, body: body.into(), more: vec![] }
    }

    /// An object.
    pub fn json(value: &Value) -> HttpResponse {
        HttpResponse::new("application/json", value.to_string())
    }

    /// What is wrong and what to do.
    pub fn problem(status: HttpStatus, problem: impl Into<String>, hint: impl Into<String>) -> HttpResponse {
        let facts = json!({ "error": problem.into(), "hint": hint.into() });
        HttpResponse { status, ..HttpResponse::json(&facts) }
    }

    /// Something that the library refused or could not do.
    pub fn failed(error: impl Error + 'static) -> HttpResponse {
        let (problem, hint) = explain(&error);
        HttpResponse::refused(problem, hint.unwrap_or_else(|| "try other values".into()))
    }

    /// A request that is understood, but cannot be done.
    pub fn refused(problem: impl Into<String>, hint: impl Into<String>) -> HttpResponse {
        HttpResponse::problem(HttpStatus::Impossible, problem, hint)
    }

    /// Look there instead.
    pub fn moved(to: &str) -> HttpResponse {
        HttpResponse { status: HttpStatus::SeeOther, ..HttpResponse::new("text/plain", "") }
            .with("location", to.to_owned())
    }

    /// The object that it holds.
    pub fn facts(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// One header more.
    pub fn with(mut self, name: &'static str, value: String) -> HttpResponse {
        self.more.push((name, value));
        self
    }

    /// Writes it; the client may have left.
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
