//! Which address is answered by what.

use super::http::{Handler, Method, Request, Response, Status};
use super::{Studio, assets, corrupt, restore, sample, schedule};
use serde_json::json;
use softdiff::sampler::names;

impl Handler for Studio {
    fn refuse(&self, request: &Request) -> Option<Response> {
        self.guard.refuse(request)
    }

    fn answer(&self, request: &Request) -> Response {
        self.route(request).unwrap_or_else(|problem| problem)
    }
}

impl Studio {
    fn route(&self, request: &Request) -> Result<Response, Response> {
        let value = match (request.method, request.path.as_str()) {
            (Method::Get, "/api/start") => json!({
                "pictures": self.images.offered(), "corruptions": corrupt::names().collect::<Vec<_>>(),
                "samplers": names().collect::<Vec<_>>(),
                "models": self.models.answer(), "version": softdiff::run::build(),
            }),
            (Method::Get, "/api/models") => self.models.answer(),
            (Method::Get, "/api/corrupt") => corrupt::answer(self, request)?,
            (Method::Get, "/api/schedule") => schedule::answer(self, request)?,
            (Method::Get, "/api/runs") => self.runs.answer(),
            (Method::Get, "/api/losses") => self.runs.losses(request)?,
            (Method::Get, "/api/preview") => return self.runs.preview(request),
            (Method::Get, "/api/job") => self.jobs.look(id(request), corrupt::number(request, "since", 0)?)?,
            (Method::Post, "/api/pictures") => {
                kind(request, "application/octet-stream")?;
                self.images.upload(&request.body)?
            }
            (Method::Post, "/api/sample") => {
                kind(request, "application/json")?;
                sample::submit(self, request)?
            }
            (Method::Post, "/api/restore") => {
                kind(request, "application/json")?;
                restore::submit(self, request)?
            }
            (Method::Post, "/api/cancel") => {
                kind(request, "application/json")?;
                self.jobs.cancel(id(request))?
            }
            (Method::Get, path) => return assets::find(path).ok_or_else(missing),
            (Method::Post, _) => return Err(missing()),
        };
        Ok(Response::json(&value))
    }
}

fn id(request: &Request) -> &str {
    request.value("id").unwrap_or_default()
}

/// A form of another page can send no such kind without asking first, and is then refused.
fn kind(request: &Request, wanted: &str) -> Result<(), Response> {
    match request.header("content-type") == Some(wanted) {
        true => Ok(()),
        false => Err(Response::problem(Status::Bad, "the body is of another kind", format!("send {wanted}"))),
    }
}

fn missing() -> Response {
    Response::problem(Status::Missing, "there is nothing here", "open /")
}
