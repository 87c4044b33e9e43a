//! Who may ask: the page itself, from the address it was opened at, and with the token.

use super::problem::HttpProblem;
use super::query::QueryValues;
use axum::http::header::{COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE};
use axum::http::{HeaderValue, Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use std::net::SocketAddr;

/// Decides which requests are answered.
pub struct AccessGuard {
    address: SocketAddr,
    token: Option<String>,
}

impl AccessGuard {
    /// Rules for a server at this address, with a token of its own or without.
    pub fn new(address: SocketAddr, token: bool) -> AccessGuard {
        AccessGuard { address, token: token.then(random_token) }
    }

    /// The URL that opens the page, with the token.
    pub fn url(&self) -> String {
        match &self.token {
            Some(token) => format!("http://{}/?token={token}", self.address),
            None => format!("http://{}/", self.address),
        }
    }

    /// The answer to a request that must go no further.
    pub fn refuse<B>(&self, request: &Request<B>) -> Option<Response> {
        let headers = request.headers();
        let mut hosts = headers.get_all(HOST).iter().map(|host| host.to_str());
        let (Some(Ok(host)), None, None) = (hosts.next(), hosts.next(), request.uri().authority()) else {
            let hint = "use a browser, or plain HTTP/1.1";
            let problem = HttpProblem::new(StatusCode::BAD_REQUEST, "a request names exactly one host", hint);
            return Some(problem.into_response());
        };
        // Without a token the name must be ours: another name that leads here is DNS rebinding.
        if self.token.is_none() && !self.is_ours(host) {
            return Some(forbidden("this page has another address", &format!("open {}", self.url())));
        }
        let own = format!("http://{host}");
        if headers.get_all(ORIGIN).iter().any(|origin| *origin != own) {
            return Some(forbidden("requests of other pages are refused", "use the page itself"));
        }
        // A link to the page may stand anywhere; what the page is made of, and what it asks, may not.
        let link = request.method() == Method::GET && request.uri().path() == "/";
        let other_site = |site: &HeaderValue| site != "same-origin" && site != "none";
        if !link && headers.get_all("sec-fetch-site").iter().any(other_site) {
            return Some(forbidden("requests of other pages are refused", "use the page itself"));
        }
        let token = self.token.as_deref()?;
        if link && QueryValues::new(request.uri()).value("token").is_some_and(|given| same(given, token)) {
            let cookie = format!("{}={token}; HttpOnly; SameSite=Strict; Path=/", self.cookie());
            return Some((StatusCode::SEE_OTHER, [(LOCATION, "/"), (SET_COOKIE, &cookie)]).into_response());
        }
        let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|one| one.trim().split_once('='));
        match pairs.filter(|(name, _)| *name == self.cookie()).any(|(_, value)| same(value, token)) {
            true => None,
            false => {
                let hint = "open the address that softdiff studio printed";
                Some(HttpProblem::new(StatusCode::UNAUTHORIZED, "this page needs its token", hint).into_response())
            }
        }
    }

    fn is_ours(&self, host: &str) -> bool {
        let port = self.address.port();
        let names = ["localhost", "127.0.0.1", "[::1]"].map(|name| format!("{name}:{port}"));
        host == self.address.to_string() || names.iter().any(|name| name.eq_ignore_ascii_case(host))
    }

    /// The cookie's name. Cookies are shared by all ports of a host, so the name has the port.
    fn cookie(&self) -> String {
        format!("softdiff-{}", self.address.port())
    }
}

fn forbidden(problem: &str, hint: &str) -> Response {
    HttpProblem::new(StatusCode::FORBIDDEN, problem, hint).into_response()
}

/// 128 random bits, in hexadecimal.
fn random_token() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    format!("{:032x}", u128::from_ne_bytes(bytes))
}

/// Compares in a time that does not tell how much was right.
fn same(given: &str, token: &str) -> bool {
    given.len() == token.len() && given.bytes().zip(token.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status with which a GET request is refused; headers are written `name: value`.
    fn refused(guard: &AccessGuard, path: &str, headers: &[&str]) -> Option<StatusCode> {
        let mut request = Request::get(path);
        for (name, value) in headers.iter().map(|line| line.split_once(": ").unwrap()) {
            request = request.header(name, value);
        }
        guard.refuse(&request.body(()).unwrap()).map(|response| response.status())
    }

    #[test]
    fn without_a_token_only_the_page_itself_may_ask() {
        let guard = AccessGuard::new("127.0.0.1:7860".parse().unwrap(), false);
        let ask = |host: &str, more: &[&str]| refused(&guard, "/api/x", &[&[&*format!("host: {host}")], more].concat());
        for host in ["127.0.0.1:7860", "localhost:7860", "LOCALHOST:7860", "[::1]:7860"] {
            assert_eq!(ask(host, &[]), None, "{host}");
        }
        for host in ["evil.example", "evil.example:7860", "127.0.0.1", "127.0.0.1:80", ""] {
            assert_eq!(ask(host, &[]), Some(StatusCode::FORBIDDEN), "{host}");
        }
        let ask = |more: &[&str]| ask("localhost:7860", more);
        assert_eq!(ask(&["origin: http://localhost:7860"]), None);
        for origin in ["http://evil.example", "null", "https://localhost:7860", "http://localhost:7861", "\u{ff}"] {
            let origin = format!("origin: {origin}");
            assert_eq!(ask(&[&origin]), Some(StatusCode::FORBIDDEN), "{origin}");
            assert_eq!(ask(&["origin: http://localhost:7860", &origin]), Some(StatusCode::FORBIDDEN), "{origin}");
        }
        assert_eq!(ask(&["sec-fetch-site: cross-site"]), Some(StatusCode::FORBIDDEN));
        assert_eq!(ask(&["sec-fetch-site: same-origin"]), None);
        assert_eq!(refused(&guard, "/", &["host: localhost:7860", "sec-fetch-site: cross-site"]), None);
    }

    #[test]
    fn a_request_names_exactly_one_host() {
        let guard = AccessGuard::new("127.0.0.1:7860".parse().unwrap(), false);
        let host = "host: localhost:7860";
        let bad = Some(StatusCode::BAD_REQUEST);
        assert_eq!(refused(&guard, "/", &[host]), None);
        assert_eq!(refused(&guard, "/", &[]), bad);
        assert_eq!(refused(&guard, "/", &[host, host]), bad);
        assert_eq!(refused(&guard, "/", &["host: \u{ff}"]), bad);
        assert_eq!(refused(&guard, "http://evil.example/", &[host]), bad);
    }

    #[test]
    fn with_a_token_nothing_is_answered_without_it() {
        let guard = AccessGuard::new("0.0.0.0:7860".parse().unwrap(), true);
        let token = guard.token.clone().unwrap();
        assert_eq!(token.len(), 32);
        assert_ne!(AccessGuard::new("0.0.0.0:1".parse().unwrap(), true).token, Some(token.clone()));
        let ask = |path: &str, more: &[&str]| refused(&guard, path, &[&["host: box:7860"], more].concat());
        let (needed, cookie) =
            (Some(StatusCode::UNAUTHORIZED), |port: u16| format!("cookie: a=b; softdiff-{port}={token}"));
        assert_eq!(ask("/", &[]), needed);
        assert_eq!(ask("/?token=0", &[]), needed);
        assert_eq!(ask(&format!("/?token={token}"), &[]), Some(StatusCode::SEE_OTHER));
        assert_eq!(ask(&format!("/api/x?token={token}"), &[]), needed);
        assert_eq!(ask("/api/x", &[&cookie(7860)]), None);
        assert_eq!(ask("/api/x", &[&cookie(7861)]), needed);
    }
}
