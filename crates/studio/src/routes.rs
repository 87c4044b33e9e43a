//! Which address is answered by what.

use super::problem::{HttpProblem, json_response};
use super::query::QueryValues;
use super::server::PATIENCE;
use super::{Studio, assets, corrupt, restore, sample, schedule};
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{self, CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Largest body: an uploaded image.
const LARGEST_BODY: usize = 32 << 20;
/// Memory for bodies is counted in parts of so many bytes.
const BODY_UNIT: usize = 64 << 10;
/// Parts that may be in use at the same time: 8 of the largest bodies.
pub const BODY_UNITS: usize = 8 * LARGEST_BODY / BODY_UNIT;

/// Sent with every answer. The policy: nothing from elsewhere, nothing in frames, no script but the page's own.
const HEADERS: [(HeaderName, &str); 7] = [
    (header::CACHE_CONTROL, "no-store"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

type SharedStudio = State<Arc<Studio>>;

/// All that the studio answers.
pub fn router(studio: Arc<Studio>) -> Router {
    let mut router = Router::new()
        .route("/api/start", look(|studio, _| Ok(start(studio))))
        .route("/api/models", look(|studio, _| Ok(studio.models.answer())))
        .route("/api/corrupt", look(corrupt::answer))
        .route("/api/schedule", look(schedule::answer))
        .route("/api/runs", look(|studio, _| Ok(studio.runs.answer())))
        .route("/api/losses", look(|studio, query| studio.runs.losses(query)))
        .route("/api/preview", get(preview))
        .route("/api/model", look(|studio, query| studio.models.facts(query)))
        .route("/api/result", get(result))
        .route("/api/job", look(|studio, query| studio.jobs.look(query)))
        .route("/api/pictures", act("application/octet-stream", |studio, _, body| studio.images.upload(body)))
        .route("/api/sample", act("application/json", |studio, _, body| sample::submit(studio, body)))
        .route("/api/restore", act("application/json", |studio, _, body| restore::submit(studio, body)))
        .route("/api/cancel", act("application/json", |studio, query, _| studio.jobs.cancel(query)));
    for (address, kind, text) in assets::FILES {
        router = router.route(address, get(async move || ([(CONTENT_TYPE, kind)], text)));
    }
    let wrong_method = HttpProblem::new(StatusCode::METHOD_NOT_ALLOWED, "this method is not allowed here", "open /");
    let missing = HttpProblem::missing("there is nothing here", "open /");
    router
        .fallback(async move || missing)
        .method_not_allowed_fallback(async move || wrong_method)
        .layer(from_fn_with_state(studio.clone(), guarded))
        .with_state(studio)
}

/// Refuses what must go no further before its body is read.
async fn guarded(State(studio): SharedStudio, request: Request, next: Next) -> Response {
    let mut response = match studio.guard.refuse(&request) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    response.headers_mut().extend(HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value))));
    response
}

fn start(studio: &Studio) -> Value {
    json!({
        "pictures": studio.images.offered(), "corruptions": corrupt::names().collect::<Vec<_>>(),
        "models": studio.models.answer(), "version": softdiff::run::build(),
    })
}

async fn preview(State(studio): SharedStudio, uri: Uri) -> Result<Response, HttpProblem> {
    let png = |bytes| ([(CONTENT_TYPE, "image/png")], bytes).into_response();
    work(move || studio.runs.preview(&QueryValues::new(&uri)).map(png)).await
}

async fn result(State(studio): SharedStudio, uri: Uri) -> Result<Response, HttpProblem> {
    let file = studio.jobs.result(&QueryValues::new(&uri))?;
    Ok(([(CONTENT_TYPE, "image/png")], file.to_vec()).into_response())
}

/// A GET route that answers with a JSON object.
fn look(answer: fn(&Studio, &QueryValues) -> Result<Value, HttpProblem>) -> MethodRouter<Arc<Studio>> {
    get(move |State(studio): SharedStudio, uri: Uri| {
        work(move || Ok(json_response(&answer(&studio, &QueryValues::new(&uri))?)))
    })
}

/// A POST route that takes a body of one kind and answers with a JSON object. Another site's form can send no such kind
/// without asking first, and is then refused.
fn act(
    kind: &'static str,
    answer: fn(&Studio, &QueryValues, &[u8]) -> Result<Value, HttpProblem>,
) -> MethodRouter<Arc<Studio>> {
    post(async move |State(studio): SharedStudio, uri: Uri, headers: HeaderMap, body: Body| {
        let length = length(&headers)?;
        if headers.get(CONTENT_TYPE).is_none_or(|found| found != kind) {
            return Err(bad("the body has another content type", format!("send {kind}")));
        }
        // Rounded down: for a form there is always room.
        let room = studio.room_for_bodies.clone().try_acquire_many_owned((length / BODY_UNIT) as u32);
        let room = room.map_err(|_| too_many_uploads())?;
        let body = read(body).await?;
        work(move || {
            let answer = answer(&studio, &QueryValues::new(&uri), &body);
            drop(room);
            Ok(json_response(&answer?))
        })
        .await
    })
}

/// The length of a body that will be read.
fn length(headers: &HeaderMap) -> Result<usize, HttpProblem> {
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let unknown = || HttpProblem::new(StatusCode::LENGTH_REQUIRED, "the body has no length", "send content-length");
    match length.ok_or_else(unknown)? {
        length if length > LARGEST_BODY => {
            let problem = format!("the body is larger than {} MiB", LARGEST_BODY >> 20);
            Err(HttpProblem::new(StatusCode::PAYLOAD_TOO_LARGE, problem, "send a smaller image"))
        }
        length => Ok(length),
    }
}

async fn read(body: Body) -> Result<Bytes, HttpProblem> {
    match timeout(PATIENCE, to_bytes(body, LARGEST_BODY)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => Err(bad("the body ends early", "send as many bytes as content-length says")),
        Err(_) => {
            Err(HttpProblem::new(StatusCode::REQUEST_TIMEOUT, "the request did not come in time", "send it again"))
        }
    }
}

/// Does work on a thread of its own. A panic costs no more than this one answer.
async fn work(
    answer: impl FnOnce() -> Result<Response, HttpProblem> + Send + 'static,
) -> Result<Response, HttpProblem> {
    spawn_blocking(answer).await.unwrap_or_else(|_| Err(HttpProblem::panicked()))
}

fn bad(error: &str, hint: impl Into<String>) -> HttpProblem {
    HttpProblem::new(StatusCode::BAD_REQUEST, error, hint)
}

/// More uploads at once than there is memory for.
pub fn too_many_uploads() -> HttpProblem {
    HttpProblem::new(StatusCode::TOO_MANY_REQUESTS, "too many uploads at once", "try again in a moment")
}
