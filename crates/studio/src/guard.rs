//! Who may ask: the page itself, from the address it was opened at, and with the token where one is needed.

use super::http::{HttpMethod, HttpRequest, HttpResponse, HttpStatus};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

/// The rules of one server.
pub struct AccessGuard {
    address: SocketAddr,
    token: Option<String>,
}

impl AccessGuard {
    /// Rules for a server at this address: beyond loopback there is a token.
    pub fn new(address: SocketAddr) -> AccessGuard {
        AccessGuard { address, token: (!address.ip().is_loopback()).then(random_token) }
    }

    /// Where to open the page.
    pub fn url(&self) -> String {
        match &self.token {
            Some(token) => format!("http://{}/?token={token}", self.address),
            None => format!("http://{}/", self.address),
        }
    }

    /// The answer to a request that must go no further.
    pub fn refuse(&self, request: &HttpRequest) -> Option<HttpResponse> {
        let host = request.header("host").unwrap_or_default();
        // On loopback the token is missing, so the name must be ours: another name that leads here is DNS rebinding.
        if self.token.is_none() && !self.is_ours(host) {
            return Some(forbidden("this page has another address", &format!("open {}", self.url())));
        }
        if request.header("origin").is_some_and(|origin| origin != format!("http://{host}")) {
            return Some(forbidden("requests of other pages are refused", "use the page itself"));
        }
        // A link to the page may stand anywhere; what the page is made of, and what it asks, may not.
        let link = request.method == HttpMethod::Get && request.path == "/";
        let site = request.header("sec-fetch-site");
        if !link && site.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
            return Some(forbidden("requests of other pages are refused", "use the page itself"));
        }
        let token = self.token.as_deref()?;
        if link && request.value("token").is_some_and(|given| same(given, token)) {
            let cookie = format!("{}={token}; HttpOnly; SameSite=Strict; Path=/", self.cookie());
            return Some(HttpResponse::moved("/").with("set-cookie", cookie));
        }
        let cookies = request.header("cookie").unwrap_or_default().split(';');
        let mut values =
            cookies.filter_map(|one| one.trim().split_once('=')).filter(|(name, _)| *name == self.cookie());
        match values.any(|(_, value)| same(value, token)) {
            true => None,
            false => Some(HttpResponse::problem(
                HttpStatus::Unauthorised,
                "this page needs its token",
                "open the address that softdiff studio printed",
            )),
        }
    }

    fn is_ours(&self, host: &str) -> bool {
        let port = self.address.port();
        let names = ["localhost", "127.0.0.1", "[::1]"].map(|name| format!("{name}:{port}"));
        host == self.address.to_string() || names.iter().any(|name| name.eq_ignore_ascii_case(host))
    }

    /// Cookies know no ports, so the name has it.
    fn cookie(&self) -> String {
        format!("softdiff-{}", self.address.port())
    }
}

fn forbidden(problem: &str, hint: &str) -> HttpResponse {
    HttpResponse::problem(HttpStatus::Forbidden, problem, hint)
}

/// 128 bits from the system's randomness, by way of the keyed hash (SipHash) of the standard library's maps.
fn random_token() -> String {
    let state = RandomState::new();
    format!("{:016x}{:016x}", state.hash_one(1), state.hash_one(2))
}

/// Equality that takes as long whatever is given.
fn same(given: &str, token: &str) -> bool {
    given.len() == token.len() && given.bytes().zip(token.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(guard: &AccessGuard, text: &str) -> Option<HttpStatus> {
        let request = HttpRequest::read(&mut text.as_bytes(), &|_| None).unwrap();
        guard.refuse(&request).map(|response| response.status)
    }

    #[test]
    fn only_the_page_itself_may_ask_on_loopback() {
        let guard = AccessGuard::new("127.0.0.1:7860".parse().unwrap());
        let ask =
            |host: &str, more: &str| refused(&guard, &format!("GET /api/x HTTP/1.1\r\nHost: {host}\r\n{more}\r\n"));
        for host in ["127.0.0.1:7860", "localhost:7860", "LOCALHOST:7860", "[::1]:7860"] {
            assert_eq!(ask(host, ""), None, "{host}");
        }
        for host in ["evil.example", "evil.example:7860", "127.0.0.1", "127.0.0.1:80", ""] {
            assert_eq!(ask(host, ""), Some(HttpStatus::Forbidden), "{host}");
        }
        assert_eq!(ask("localhost:7860", "Origin: http://localhost:7860\r\n"), None);
        for origin in ["http://evil.example", "null", "https://localhost:7860", "http://localhost:7861"] {
            assert_eq!(
                ask("localhost:7860", &format!("Origin: {origin}\r\n")),
                Some(HttpStatus::Forbidden),
                "{origin}"
            );
        }
        assert_eq!(ask("localhost:7860", "Sec-Fetch-Site: cross-site\r\n"), Some(HttpStatus::Forbidden));
        assert_eq!(ask("localhost:7860", "Sec-Fetch-Site: same-origin\r\n"), None);
        let link = "GET / HTTP/1.1\r\nHost: localhost:7860\r\nSec-Fetch-Site: cross-site\r\n\r\n";
        assert_eq!(refused(&guard, link), None);
    }

    #[test]
    fn beyond_loopback_nothing_is_answered_without_the_token() {
        let guard = AccessGuard::new("0.0.0.0:7860".parse().unwrap());
        let token = guard.token.clone().unwrap();
        assert_eq!(
            (token.len(), AccessGuard::new("0.0.0.0:1".parse().unwrap()).token == Some(token.clone())),
            (32, false)
        );
        let ask =
            |path: &str, more: &str| refused(&guard, &format!("GET {path} HTTP/1.1\r\nHost: box:7860\r\n{more}\r\n"));
        assert_eq!(ask("/", ""), Some(HttpStatus::Unauthorised));
        assert_eq!(ask("/?token=0", ""), Some(HttpStatus::Unauthorised));
        assert_eq!(ask(&format!("/?token={token}"), ""), Some(HttpStatus::SeeOther));
        assert_eq!(ask(&format!("/api/x?token={token}"), ""), Some(HttpStatus::Unauthorised));
        assert_eq!(ask("/api/x", &format!("Cookie: a=b; softdiff-7860={token}\r\n")), None);
        assert_eq!(ask("/api/x", &format!("Cookie: softdiff-7861={token}\r\n")), Some(HttpStatus::Unauthorised));
    }
}
