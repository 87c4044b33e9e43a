//! What is wrong with a request, as the page shows it.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use softdiff::hint::explain;
use std::error::Error;

/// A request that is not answered as it was meant to be: why, and what to do about it.
#[derive(Clone, Debug)]
pub struct HttpProblem {
    status: StatusCode,
    error: String,
    hint: String,
}

impl HttpProblem {
    /// A problem with the status of its answer.
    pub fn new(status: StatusCode, error: impl Into<String>, hint: impl Into<String>) -> HttpProblem {
        HttpProblem { status, error: error.into(), hint: hint.into() }
    }

    /// Nothing is known by the given name or address: 404.
    pub fn missing(error: impl Into<String>, hint: impl Into<String>) -> HttpProblem {
        HttpProblem::new(StatusCode::NOT_FOUND, error, hint)
    }

    /// A request that is understood, but cannot be done: 422.
    pub fn refused(error: impl Into<String>, hint: impl Into<String>) -> HttpProblem {
        HttpProblem::new(StatusCode::UNPROCESSABLE_ENTITY, error, hint)
    }

    /// An error of the library, with its own hint: 422.
    pub fn failed(error: impl Error + 'static) -> HttpProblem {
        let (problem, hint) = explain(&error);
        HttpProblem::refused(problem, hint.unwrap_or_else(|| "try other values".into()))
    }

    /// A panic, whose message is on standard error: 500.
    pub fn panicked() -> HttpProblem {
        let hint = "try again, and report what you did";
        HttpProblem::new(StatusCode::INTERNAL_SERVER_ERROR, "the studio failed on this request", hint)
    }

    /// The object that the page reads.
    pub fn facts(&self) -> Value {
        json!({ "error": self.error, "hint": self.hint })
    }
}

impl IntoResponse for HttpProblem {
    fn into_response(self) -> Response {
        (self.status, json_response(&self.facts())).into_response()
    }
}

/// A JSON object as an answer.
pub fn json_response(value: &Value) -> Response {
    ([(CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}
