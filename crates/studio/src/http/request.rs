//! A request, read within limits of size and time.

use super::response::{HttpResponse, HttpStatus};
use super::{LARGEST_BODY, LONGEST_HEAD, MOST_HEADERS};
use std::io::Read;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpMethod {
    /// To look.
    Get,
    /// To do.
    Post,
}

/// A whole request.
#[derive(Debug)]
pub struct HttpRequest {
    /// To look or to do.
    pub method: HttpMethod,
    /// The path with its `%` letters decoded.
    pub path: String,
    /// The query's names and values, decoded.
    query: Vec<(String, String)>,
    /// Headers, names in small letters.
    headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// Reads one request; what is wrong with it is the answer to it. `refuse` sees it before its body is read, which costs
    /// memory.
    pub fn read(
        from: &mut dyn Read,
        refuse: &dyn Fn(&HttpRequest) -> Option<HttpResponse>,
    ) -> Result<HttpRequest, HttpResponse> {
        let (head, rest) = read_head(from)?;
        let head = std::str::from_utf8(&head).map_err(|_| bad("the head of the request is no text"))?;
        let mut lines = head.split("\r\n");
        let (method, target) = request_line(lines.next().unwrap_or_default())?;
        let headers = lines.map(header).collect::<Result<Vec<_>, _>>()?;
        if headers.len() > MOST_HEADERS {
            return Err(HttpResponse::problem(HttpStatus::HeadTooLarge, "too many headers", "send fewer"));
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = decode(path, false)?;
        let mut pairs = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            pairs.push((decode(name, true)?, decode(value, true)?));
        }
        let mut request = HttpRequest { method, path, query: pairs, headers, body: vec![] };
        if request.headers.iter().filter(|(name, _)| name == "host").count() != 1 {
            return Err(bad("a request names exactly one host"));
        }
        if let Some(refused) = refuse(&request) {
            return Err(refused);
        }
        request.body = request.read_body(from, rest)?;
        Ok(request)
    }

    /// A header by its name in small letters; the first one of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// A value of the query.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    fn read_body(&self, from: &mut dyn Read, mut body: Vec<u8>) -> Result<Vec<u8>, HttpResponse> {
        if self.header("transfer-encoding").is_some() {
            return Err(HttpResponse::problem(
                HttpStatus::NeedsLength,
                "bodies in chunks are not read",
                "send a length",
            ));
        }
        let lengths: Vec<&str> =
            self.headers.iter().filter(|(name, _)| name == "content-length").map(|(_, value)| value.as_str()).collect();
        let length = match lengths[..] {
            [] if self.method == HttpMethod::Post => {
                return Err(HttpResponse::problem(
                    HttpStatus::NeedsLength,
                    "the body has no length",
                    "send content-length",
                ));
            }
            [] => 0,
            // Digits only: `parse` would also take a sign.
            [one] if one.bytes().all(|b| b.is_ascii_digit()) => one.parse::<usize>().map_err(|_| too_large())?,
            _ => return Err(bad("the length of the body is no number")),
        };
        if length > LARGEST_BODY {
            return Err(too_large());
        }
        if body.len() > length {
            return Err(bad("there is more after the body"));
        }
        let missing = (length - body.len()) as u64;
        from.take(missing).read_to_end(&mut body).map_err(|_| slow())?;
        if body.len() < length { Err(bad("the body ends early")) } else { Ok(body) }
    }
}

/// The head without the empty line that ends it, and what came with it of the body.
fn read_head(from: &mut dyn Read) -> Result<(Vec<u8>, Vec<u8>), HttpResponse> {
    let (mut head, mut part) = (Vec::new(), [0; 2048]);
    loop {
        let count = from.read(&mut part).map_err(|_| slow())?;
        if count == 0 {
            return Err(bad("the request ends early"));
        }
        let searched = head.len().saturating_sub(3);
        head.extend_from_slice(&part[..count]);
        if let Some(end) = head[searched..].windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = head.split_off(searched + end + 4);
            head.truncate(searched + end);
            if head.len() <= LONGEST_HEAD {
                return Ok((head, rest));
            }
        }
        if head.len() > LONGEST_HEAD {
            return Err(HttpResponse::problem(
                HttpStatus::HeadTooLarge,
                "the head of the request is too long",
                "shorten it",
            ));
        }
    }
}

fn request_line(line: &str) -> Result<(HttpMethod, &str), HttpResponse> {
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words[..] else { return Err(bad("the first line is no request")) };
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(bad("only HTTP/1.1 is spoken here"));
    }
    let method = match method {
        "GET" => HttpMethod::Get,
        "POST" => HttpMethod::Post,
        _ => {
            return Err(HttpResponse::problem(
                HttpStatus::NotAllowed,
                "only GET and POST are answered",
                "use one of them",
            ));
        }
    };
    if !target.starts_with('/') || target.bytes().any(|b| b <= b' ' || b >= 0x7f) {
        return Err(bad("the address is no path"));
    }
    Ok((method, target))
}

fn header(line: &str) -> Result<(String, String), HttpResponse> {
    let (name, value) = line.split_once(':').ok_or_else(|| bad("a header has no colon"))?;
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(token) || value.chars().any(|c| c.is_control() && c != '\t') {
        return Err(bad("a header has letters that it must not have"));
    }
    Ok((name.to_ascii_lowercase(), value.trim().to_owned()))
}

/// `%41` is `A`; in a query `+` is a space. Control letters are refused.
fn decode(text: &str, query: bool) -> Result<String, HttpResponse> {
    let wrong = || bad("the address has a bad % letter");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || rest.next().and_then(|b| char::from(b).to_digit(16)).ok_or_else(wrong);
                (digit()? * 16 + digit()?) as u8
            }
            b'+' if query => b' ',
            other => other,
        });
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong())?;
    if text.chars().any(char::is_control) { Err(wrong()) } else { Ok(text) }
}

fn bad(problem: &str) -> HttpResponse {
    HttpResponse::problem(HttpStatus::Bad, problem, "use a browser, or speak plain HTTP/1.1")
}

fn slow() -> HttpResponse {
    HttpResponse::problem(HttpStatus::Slow, "the request did not come in time", "send it again")
}

fn too_large() -> HttpResponse {
    HttpResponse::problem(HttpStatus::TooLarge, "the body is larger than 8 MB", "send a smaller picture")
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
