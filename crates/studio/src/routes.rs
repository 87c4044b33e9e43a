//! Which address is answered by what.

use super::http::{Handler, HttpMethod, HttpRequest, HttpResponse, HttpStatus};
use super::{Studio, assets, corrupt, restore, sample, schedule};
use serde_json::json;
use softdiff::sampler::names;

impl Handler for Studio {
    fn refuse(&self, request: &HttpRequest) -> Option<HttpResponse> {
        self.guard.refuse(request)
    }

    fn answer(&self, request: &HttpRequest) -> HttpResponse {
        self.route(request).unwrap_or_else(|problem| problem)
    }
}

impl Studio {
    fn route(&self, request: &HttpRequest) -> Result<HttpResponse, HttpResponse> {
        let value = match (request.method, request.path.as_str()) {
            (HttpMethod::Get, "/api/start") => json!({
                "pictures": self.images.offered(), "corruptions": corrupt::names().collect::<Vec<_>>(),
                "samplers": names().collect::<Vec<_>>(),
                "models": self.models.answer(), "version": softdiff::run::build(),
            }),
            (HttpMethod::Get, "/api/models") => self.models.answer(),
            (HttpMethod::Get, "/api/corrupt") => corrupt::answer(self, request)?,
            (HttpMethod::Get, "/api/schedule") => schedule::answer(self, request)?,
            (HttpMethod::Get, "/api/runs") => self.runs.answer(),
            (HttpMethod::Get, "/api/losses") => self.runs.losses(request)?,
            (HttpMethod::Get, "/api/preview") => return self.runs.preview(request),
            (HttpMethod::Get, "/api/job") => self.jobs.look(id(request), corrupt::number(request, "since", 0)?)?,
            (HttpMethod::Post, "/api/pictures") => {
                kind(request, "application/octet-stream")?;
                self.images.upload(&request.body)?
            }
            (HttpMethod::Post, "/api/sample") => {
                kind(request, "application/json")?;
                sample::submit(self, request)?
            }
            (HttpMethod::Post, "/api/restore") => {
                kind(request, "application/json")?;
                restore::submit(self, request)?
            }
            (HttpMethod::Post, "/api/cancel") => {
                kind(request, "application/json")?;
                self.jobs.cancel(id(request))?
            }
            (HttpMethod::Get, path) => return assets::find(path).ok_or_else(missing),
            (HttpMethod::Post, _) => return Err(missing()),
        };
        Ok(HttpResponse::json(&value))
    }
}

fn id(request: &HttpRequest) -> &str {
    request.value("id").unwrap_or_default()
}

/// A form of another page can send no such kind without asking first, and is then refused.
fn kind(request: &HttpRequest, wanted: &str) -> Result<(), HttpResponse> {
    match request.header("content-type") == Some(wanted) {
        true => Ok(()),
        false => Err(HttpResponse::problem(HttpStatus::Bad, "the body is of another kind", format!("send {wanted}"))),
    }
}

fn missing() -> HttpResponse {
    HttpResponse::problem(HttpStatus::Missing, "there is nothing here", "open /")
}
