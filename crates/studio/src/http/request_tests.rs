//! Requests as they should not be.

use super::*;

fn status(text: &[u8]) -> HttpStatus {
    HttpRequest::read(&mut &text[..], &|_| None).unwrap_err().status
}

#[test]
fn a_request_has_its_path_query_headers_and_body() {
    let text = b"POST /a%20b?x=1+2&y=%3Cb%3E&z HTTP/1.1\r\nHost: me\r\nContent-Length: 3\r\n\r\nabc";
    let request = HttpRequest::read(&mut &text[..], &|_| None).unwrap();
    assert_eq!(
        (request.method, request.path.as_str(), request.body.as_slice()),
        (HttpMethod::Post, "/a b", &b"abc"[..])
    );
    assert_eq!((request.value("x"), request.value("y"), request.value("z")), (Some("1 2"), Some("<b>"), Some("")));
    assert_eq!((request.header("host"), request.header("nothing")), (Some("me"), None));
}

#[test]
fn what_is_no_request_is_told_so() {
    let bad: [&[u8]; 16] = [
        b"",
        b"GET / HTTP/1.1\r\nHost: a\r\n",
        b"hello\r\n\r\n",
        b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost a\r\n\r\n",
        b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
        b"GET /%4 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /%ff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab",
    ];
    for text in bad {
        assert_eq!(status(text), HttpStatus::Bad, "{}", String::from_utf8_lossy(text));
    }
    assert_eq!(status(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nab"), HttpStatus::Bad);
    assert_eq!(status(b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n"), HttpStatus::NotAllowed);
    assert_eq!(status(b"POST / HTTP/1.1\r\nHost: a\r\n\r\n"), HttpStatus::NeedsLength);
    let chunked = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc";
    assert_eq!(status(chunked), HttpStatus::NeedsLength);
}

#[test]
fn nothing_is_read_beyond_the_limits() {
    let long = [b"GET /".to_vec(), vec![b'a'; 2 * LONGEST_HEAD]].concat();
    assert_eq!(status(&long), HttpStatus::HeadTooLarge);
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "x: y\r\n".repeat(MOST_HEADERS));
    assert_eq!(status(many.as_bytes()), HttpStatus::HeadTooLarge);
    for length in ["8388609", "99999999999999999999999999"] {
        let large = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        assert_eq!(status(large.as_bytes()), HttpStatus::TooLarge);
    }
}

#[test]
fn the_body_of_a_refused_request_is_not_read() {
    let text = b"POST /a HTTP/1.1\r\nHost: me\r\nContent-Length: 3000000\r\n\r\n";
    let mut rest = std::io::Read::chain(&text[..], std::io::repeat(0).take(3_000_000));
    let refuse = |request: &HttpRequest| {
        (request.path == "/a").then(|| HttpResponse::problem(HttpStatus::Forbidden, "no", "no"))
    };
    assert_eq!(HttpRequest::read(&mut rest, &refuse).unwrap_err().status, HttpStatus::Forbidden);
    assert!(rest.into_inner().1.limit() > 2_990_000);
}

/// A stream that says how much was taken of it and never gives more than a few bytes at once.
struct Counted<'a> {
    bytes: &'a [u8],
    taken: usize,
    part: usize,
}

impl Read for Counted<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = into.len().min(self.part).min(self.bytes.len());
        into[..count].copy_from_slice(&self.bytes[..count]);
        self.bytes = &self.bytes[count..];
        self.taken += count;
        Ok(count)
    }
}

/// Whole requests, from which damage is made.
const SEEDS: [&[u8]; 5] = [
    b"GET /api/corrupt?picture=sample-0&first=blur&second=heat&t=0.5&noise=1 HTTP/1.1\r\nHost: localhost:7860\r\n\r\n",
    b"POST /api/sample HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"steps\":10}",
    b"GET /%2e%2e/%2e%2e/etc/passwd?a=%41+b&&=&c HTTP/1.0\r\nHost: [::1]:7860\r\nCookie: softdiff-7860=0; a=b\r\n\r\n",
    b"POST /api/pictures HTTP/1.1\r\nHost: a\r\nOrigin: http://a\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 4\r\n\r\n\x89PNG",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n4\r\nabcd\r\n0\r\n\r\n",
];
/// What a damaged place is likely to break.
const WORDS: [&[u8]; 14] = [
    b"\r\n",
    b"\r",
    b"\n",
    b"\r\n\r\n",
    b":",
    b"%",
    b"%zz",
    b"\0",
    b"\xff\xfe",
    b"\xf0\x9f\x98\x80",
    b" ",
    b"Content-Length: 8388608\r\n",
    b"Host: b\r\n",
    b"99999999999999999999",
];

#[test]
fn damaged_requests_are_read_or_refused_within_their_limits() {
    let mut random = softdiff::engine::rng::RandomStream::new(0, "damaged requests");
    let mut below = move |most: usize| random.below(most.max(1));
    let (begun, mut whole, mut refused) = (std::time::Instant::now(), 0, 0);
    for round in 0..20_000 {
        let mut bytes = SEEDS[round % SEEDS.len()].to_vec();
        for _ in 0..=below(4) {
            let at = below(bytes.len());
            match below(6) {
                0 => bytes[at] ^= 1 << below(8),
                1 => bytes[at] = below(256) as u8,
                2 => bytes.truncate(at + 1),
                3 => drop(bytes.splice(at..at, WORDS[below(WORDS.len())].iter().copied())),
                4 => {
                    let end = (at + 1 + below(16)).min(bytes.len());
                    let part = bytes[at..end].to_vec();
                    (0..below(200)).for_each(|_| drop(bytes.splice(at..at, part.iter().copied())));
                }
                _ => bytes.extend(std::iter::repeat_n(b'x', below(2 * LONGEST_HEAD))),
            }
        }
        let mut stream = Counted { bytes: &bytes, taken: 0, part: 1 + below(4096) };
        match HttpRequest::read(&mut stream, &|_| None) {
            Ok(request) => {
                whole += 1;
                assert!(request.body.len() <= bytes.len() && request.headers.len() <= MOST_HEADERS);
                assert!(!request.path.chars().any(char::is_control));
                assert!(request.path.starts_with('/') && request.path.len() <= LONGEST_HEAD);
            }
            Err(answer) => {
                refused += 1;
                assert!(
                    !matches!(answer.status, HttpStatus::Ok | HttpStatus::Failed),
                    "{}",
                    String::from_utf8_lossy(&bytes)
                );
                assert!(answer.facts()["error"].is_string());
            }
        }
        // A head is never read much beyond its limit; a body only where its length was told.
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(bytes.len());
        assert!(stream.taken <= end.min(LONGEST_HEAD) + 4096 + LARGEST_BODY);
        assert!(end <= LONGEST_HEAD + 2048 || stream.taken <= LONGEST_HEAD + 2 * 2048, "{} of {end}", stream.taken);
    }
    assert!(whole > 1000 && refused > 1000, "{whole} were read and {refused} refused");
    assert!(begun.elapsed().as_secs() < 20, "{:?} for all of them", begun.elapsed());
}
