//! A request as it comes over the network to the studio. The parser is private to its crate, so its files are taken as they are.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, unused_imports)]
#[path = "../../crates/studio/src/http/mod.rs"]
mod http;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = http::HttpRequest::read(&mut &bytes[..], &|_| None) {
        assert!(request.body.len() <= http::LARGEST_BODY && request.body.len() <= bytes.len());
        assert!(!request.path.chars().any(char::is_control));
    }
});
