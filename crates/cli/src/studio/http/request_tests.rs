//! Requests as they should not be.

use super::*;

fn status(text: &[u8]) -> Status {
    Request::read(&mut &text[..], &|_| None).unwrap_err().status
}

#[test]
fn a_request_has_its_path_query_headers_and_body() {
    let text = b"POST /a%20b?x=1+2&y=%3Cb%3E&z HTTP/1.1\r\nHost: me\r\nContent-Length: 3\r\n\r\nabc";
    let request = Request::read(&mut &text[..], &|_| None).unwrap();
    assert_eq!((request.method, request.path.as_str(), request.body.as_slice()), (Method::Post, "/a b", &b"abc"[..]));
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
        assert_eq!(status(text), Status::Bad, "{}", String::from_utf8_lossy(text));
    }
    assert_eq!(status(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nab"), Status::Bad);
    assert_eq!(status(b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n"), Status::NotAllowed);
    assert_eq!(status(b"POST / HTTP/1.1\r\nHost: a\r\n\r\n"), Status::NeedsLength);
    let chunked = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc";
    assert_eq!(status(chunked), Status::NeedsLength);
}

#[test]
fn nothing_is_read_beyond_the_limits() {
    let long = [b"GET /".to_vec(), vec![b'a'; 2 * LONGEST_HEAD]].concat();
    assert_eq!(status(&long), Status::HeadTooLarge);
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "x: y\r\n".repeat(MOST_HEADERS));
    assert_eq!(status(many.as_bytes()), Status::HeadTooLarge);
    for length in ["8388609", "99999999999999999999999999"] {
        let large = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        assert_eq!(status(large.as_bytes()), Status::TooLarge);
    }
}

#[test]
fn the_body_of_a_refused_request_is_not_read() {
    let text = b"POST /a HTTP/1.1\r\nHost: me\r\nContent-Length: 3000000\r\n\r\n";
    let mut rest = std::io::Read::chain(&text[..], std::io::repeat(0).take(3_000_000));
    let refuse = |request: &Request| (request.path == "/a").then(|| Response::problem(Status::Forbidden, "no", "no"));
    assert_eq!(Request::read(&mut rest, &refuse).unwrap_err().status, Status::Forbidden);
    assert!(rest.into_inner().1.limit() > 2_990_000);
}
