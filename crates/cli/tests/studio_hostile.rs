//! The studio's server as seen by hostile clients, by slow ones, and by many at once.

mod studio_support;
mod support;

use serde_json::json;
use softdiff::engine::rng::RandomStream;
use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use studio_support::Server;
use support::{Scratch, bytes, softdiff, text, tiny_run};

const PICTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../softdiff/tests/golden/pictures");

/// A studio without runs.
fn empty(name: &str, arguments: &[&str]) -> (Scratch, Server) {
    let scratch = Scratch::new(name);
    let server = Server::start(&[&["--runs", &scratch.path("nothing")], arguments].concat());
    (scratch, server)
}

#[test]
fn what_is_no_request_is_refused_and_the_next_one_answered() {
    let (_scratch, server) = empty("malformed", &[]);
    let host = format!("Host: {}\r\n{}", server.address, server.cookie);
    let requests = [
        ("\x16\x03\x01\x02\0\x01\0\x01", 400),
        ("hello\r\n\r\n", 400),
        ("GET  / HTTP/1.1\r\nHOST\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHOST\rHOST\r\n", 400),
        ("GET / HTTP/1.1\r\nHOSTHost: b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n HOST\r\n", 400),
        ("GET / HTTP/2.0\r\nHOST\r\n", 400),
        ("GET / HTTP/9.9\r\nHOST\r\n", 400),
        ("GET http://a/ HTTP/1.1\r\nHOST\r\n", 400),
        ("GET /%zz HTTP/1.1\r\nHOST\r\n", 404),
        ("GET /%00 HTTP/1.1\r\nHOST\r\n", 404),
        ("GET /\0 HTTP/1.1\r\nHOST\r\n", 400),
        ("GET /api/preview?run=%zz%ff%00&file=%4 HTTP/1.1\r\nHOST\r\n", 404),
        ("DELETE / HTTP/1.1\r\nHOST\r\n", 405),
        ("BREW / HTTP/1.1\r\nHOST\r\n", 405),
        ("CONNECT a:80 HTTP/1.1\r\nHOST\r\n", 400),
        ("POST / HTTP/1.1\r\nHOSTContent-Length: 0\r\n\r\n", 405),
        ("POST /api/sample HTTP/1.1\r\nHOST\r\n", 411),
        ("POST /api/sample HTTP/1.1\r\nHOSTContent-Length: -1\r\n\r\n", 400),
        ("POST /api/sample HTTP/1.1\r\nHOSTContent-Length: +1\r\n\r\n1", 400),
        ("POST /api/sample HTTP/1.1\r\nHOSTContent-Length: 1\r\nContent-Length: 2\r\n\r\n12", 400),
        ("POST /api/sample HTTP/1.1\r\nHOSTContent-Type: application/json\r\nContent-Length: 5\r\n\r\n{}", 400),
        ("POST /api/sample HTTP/1.1\r\nHOSTTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        ("POST /api/sample HTTP/1.1\r\nHOSTContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc", 411),
    ];
    for (request, status) in requests {
        assert_eq!(server.raw(request.replace("HOST", &host).as_bytes()).status, status, "{request}");
    }
    let host_without_text = [b"GET / HTTP/1.1\r\nHost: \xff\r\n", server.cookie.as_bytes(), b"\r\n"].concat();
    assert_eq!(server.raw(&host_without_text).status, 400);
    for early in ["", "\r\n\r\n", "GET / HTTP/1.1\r\nHOST"] {
        let answer = server.raw_or_closed(early.replace("HOST", &host).as_bytes());
        assert!(answer.is_none_or(|answer| answer.status == 400), "{early}");
    }
    // Of what stands behind a request nothing is answered.
    let two = format!("GET /icon.svg HTTP/1.1\r\n{host}Content-Length: 1\r\n\r\naGET / HTTP/1.1\r\n{host}\r\n");
    let answer = server.raw(two.as_bytes());
    assert_eq!((answer.status, text(&answer.body).contains("HTTP/1.1")), (200, false));
    for body in ["", "{", "[]", "{\"model\":1}", "null"] {
        for path in ["/api/sample", "/api/restore"] {
            let answer = server.post(path, "application/json", body.as_bytes());
            assert_eq!(answer.status, 422, "{path} {body}");
            assert!(answer.json()["hint"].is_string());
        }
    }
    for query in ["t=2", "t=-1", "t=NaN", "t=x", "seed=-1", "first=nothing", "picture=../x", "first=none", "t=1e999"] {
        let answer = server.get(&format!("/api/corrupt?{query}"));
        assert!([404, 422].contains(&answer.status), "{query}: {}", answer.status);
    }
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn nothing_is_read_beyond_the_limits() {
    let (_scratch, server) = empty("limits", &[]);
    let host = format!("Host: {}\r\n{}", server.address, server.cookie);
    let long = format!("GET /{} HTTP/1.1\r\n{host}\r\n", "a".repeat(100_000));
    assert_eq!(server.raw(long.as_bytes()).status, 431);
    let endless = [b"GET /".to_vec(), vec![b'a'; 1 << 20]].concat();
    assert_eq!(server.raw(&endless).status, 431);
    let many = format!("GET / HTTP/1.1\r\n{host}{}\r\n", "x: y\r\n".repeat(64));
    assert_eq!(server.raw(many.as_bytes()).status, 431);
    for (length, status) in [("33554433", 413), ("99999999999999999999999999", 400)] {
        let large = format!("POST /api/pictures HTTP/1.1\r\n{host}Content-Length: {length}\r\n\r\n");
        assert_eq!(server.raw(large.as_bytes()).status, status);
    }
}

#[test]
fn the_body_of_a_refused_request_is_not_waited_for() {
    let (_scratch, server) = empty("refused", &[]);
    let head = format!("POST /api/pictures HTTP/1.1\r\nHost: {}\r\nContent-Length: 3000000\r\n", server.address);
    for (more, status) in [(String::new(), "401"), (format!("{}Origin: null\r\n", server.cookie), "403")] {
        let mut stream = server.waiting(&format!("{head}{more}\r\n"));
        let (begun, mut line) = (Instant::now(), [0; 12]);
        stream.read_exact(&mut line).unwrap();
        assert_eq!(text(&line[9..]), status);
        assert!(begun.elapsed() < Duration::from_secs(2));
    }
}

#[test]
fn clients_that_send_a_byte_and_wait_keep_nobody_waiting() {
    let (_scratch, server) = empty("slow", &[]);
    let at_once = || {
        let begun = Instant::now();
        assert_eq!(server.get("/api/start").status, 200);
        assert_eq!(server.post("/api/sample", "application/json", b"{}").status, 422);
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    };
    // More than there may be connections.
    let _bytes: Vec<TcpStream> = (0..400).map(|_| server.waiting("G")).collect();
    at_once();
    let (host, cookie) = (&server.address, &server.cookie);
    let upload =
        format!("POST /api/pictures HTTP/1.1\r\nHost: {host}\r\n{cookie}Content-Type: application/octet-stream\r\n");
    let uploads: Vec<TcpStream> =
        (0..40).map(|_| server.waiting(&format!("{upload}Content-Length: 8388608\r\n\r\nx"))).collect();
    at_once();
    let mut statuses: Vec<String> = uploads
        .into_iter()
        .map(|mut stream| {
            let mut line = [0; 12];
            stream.read_exact(&mut line).unwrap();
            text(&line[9..])
        })
        .collect();
    statuses.sort();
    statuses.dedup();
    // Those for which there was memory had ten seconds.
    assert_eq!(statuses, ["408", "429"]);
}

#[cfg(unix)]
#[test]
fn slow_clients_that_take_all_file_descriptors_give_way() {
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -n 64; exec \"$0\" studio --port 0 --device cpu", env!("CARGO_BIN_EXE_softdiff")]);
    let server = Server::run(limited);
    let _bytes: Vec<TcpStream> = (0..200).map(|_| server.waiting("G")).collect();
    let begun = Instant::now();
    assert_eq!(server.get("/api/start").status, 200);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[test]
fn a_client_that_never_ends_its_headers_is_let_go_after_ten_seconds() {
    let (_scratch, server) = empty("silent", &[]);
    let begun = Instant::now();
    let waiting = ["", "G", "GET / HTTP/1.1\r\nHost: a\r\n"].map(|said| server.waiting(said));
    for mut stream in waiting {
        stream.read_to_end(&mut vec![]).unwrap();
    }
    let waited = begun.elapsed().as_secs();
    assert!((9..15).contains(&waited), "{waited} s");
}

#[test]
fn signals_end_the_studio_within_two_seconds() {
    for signal in ["-TERM", "-INT"] {
        let scratch = Scratch::new(&format!("signal{signal}"));
        tiny_run(&scratch);
        let mut server = Server::start(&["--runs", &scratch.path("")]);
        let order = json!({ "model": "run-run", "samplers": ["heun"], "steps": 1000, "seed": 7, "images": 16 });
        assert_eq!(server.order("/api/sample", &order).status, 200);
        let _waiting: Vec<TcpStream> = ["", "G", "GET / HTTP/1.1\r\n"].map(|said| server.waiting(said)).into();
        let (code, took) = server.end(signal);
        assert_eq!(code, Some(0));
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
}

#[test]
fn other_pages_and_other_names_are_refused() {
    let (_scratch, server) = empty("cross", &["--no-token"]);
    let ours = &server.address;
    let ask = |method: &str, host: &str, more: &str| {
        server
            .raw(format!("{method} /api/runs HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n{more}\r\n").as_bytes())
            .status
    };
    assert_eq!(ask("GET", ours, ""), 200);
    assert_eq!(ask("GET", ours, &format!("Origin: http://{ours}\r\n")), 200);
    assert_eq!(ask("GET", "rebound.example", ""), 403);
    assert_eq!(ask("GET", "127.0.0.1", ""), 403);
    assert_eq!(ask("GET", ours, "Origin: http://evil.example\r\n"), 403);
    assert_eq!(ask("POST", ours, "Origin: null\r\n"), 403);
    assert_eq!(ask("GET", ours, "Sec-Fetch-Site: cross-site\r\n"), 403);
    assert_eq!(ask("GET", ours, "Sec-Fetch-Site: same-site\r\n"), 403);
    let page = server.get("/");
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'",
        "x-content-type-options: nosniff",
        "x-frame-options: DENY",
    ] {
        assert!(page.head.contains(header), "{}", page.head);
    }
    assert!(!page.head.to_ascii_lowercase().contains("access-control"), "{}", page.head);
}

#[test]
fn the_token_of_the_printed_address_is_needed() {
    for host in ["127.0.0.1", "0.0.0.0"] {
        let (_scratch, server) = empty("token", &["--host", host]);
        let token = server.url.split("token=").nth(1).unwrap();
        let ask = |path: &str, more: &str| {
            let host = &server.address;
            server.raw(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n").as_bytes())
        };
        for path in ["/", "/studio.js", "/api/runs", "/nothing", "/?token=guess", &format!("/api/runs?token={token}")] {
            assert_eq!(ask(path, "").status, 401, "{path}");
        }
        let moved = ask(&format!("/?token={token}"), "");
        assert_eq!(moved.status, 303);
        let cookie = moved.head.split("set-cookie: ").nth(1).unwrap().split(';').next().unwrap();
        assert_eq!(ask("/api/runs", &format!("Cookie: {cookie}\r\n")).status, 200);
    }
    let output = softdiff(&["studio", "--port", "0", "--host", "0.0.0.0", "--no-token"]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("needs a token\nhint: leave out --no-token"), "{said}");
}

#[test]
fn fifty_clients_at_once_are_all_answered_beside_a_few_that_say_nothing() {
    let scratch = Scratch::new("many");
    tiny_run(&scratch);
    let server = Server::start(&["--runs", &scratch.path("")]);
    let _silent: Vec<TcpStream> = (0..8).map(|_| server.waiting("GET / HT")).collect();
    let begun = Instant::now();
    let paths = [
        "/",
        "/api/start",
        "/api/runs",
        "/studio.js",
        "/api/corrupt?first=blur&second=motion&t=0.6",
        "/api/losses?run0=run",
    ];
    std::thread::scope(|scope| {
        for client in 0..50 {
            let server = &server;
            scope.spawn(move || {
                for turn in 0..6 {
                    let path = paths[(client + turn) % paths.len()];
                    assert_eq!(server.get(path).status, 200, "{path}");
                }
                let picture = bytes(format!("{PICTURES}/rgb.png"));
                assert_eq!(server.post("/api/pictures", "application/octet-stream", &picture).status, 200);
            });
        }
    });
    assert!(begun.elapsed().as_secs() < 9, "the silent ones were waited for");
}

/// Whole requests, from which damage is made.
const SEEDS: [&str; 5] = [
    "GET /api/corrupt?picture=sample-0&first=blur&second=heat&t=0.5&noise=1 HTTP/1.1\r\nHOST\r\n",
    "POST /api/sample HTTP/1.1\r\nHOSTContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"steps\":10}",
    "GET /%2e%2e/%2e%2e/etc/passwd?a=%41+b&&=&c HTTP/1.0\r\nHOSTCookie: softdiff-7860=0; a=b\r\n\r\n",
    "POST /api/pictures HTTP/1.1\r\nHOSTSec-Fetch-Site: same-origin\r\nContent-Type: application/octet-stream\r\nContent-Length: 4\r\n\r\n\u{1}PNG",
    "POST /api/cancel HTTP/1.1\r\nHOSTTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n4\r\nabcd\r\n0\r\n\r\n",
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
fn damaged_requests_are_answered_or_refused_and_never_fail() {
    let (_scratch, server) = empty("damaged", &[]);
    let host = format!("Host: {}\r\n{}", server.address, server.cookie);
    let mut random = RandomStream::new(0, "damaged requests");
    let mut below = move |most: usize| random.below(most.max(1));
    let (mut answered, mut refused) = (0, 0);
    for round in 0..2000 {
        let mut bytes = SEEDS[round % SEEDS.len()].replace("HOST", &host).into_bytes();
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
                _ => bytes.extend(std::iter::repeat_n(b'x', below(32 << 10))),
            }
        }
        match server.raw_or_closed(&bytes).map(|answer| answer.status) {
            Some(200) => answered += 1,
            None | Some(303 | 400..=431) => refused += 1,
            Some(status) => panic!("{status}: {}", String::from_utf8_lossy(&bytes)),
        }
    }
    assert!(answered > 50 && refused > 500, "{answered} were answered and {refused} refused");
    assert_eq!(server.get("/").status, 200);
}
