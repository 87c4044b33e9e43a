//! One picture of any format.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = softdiff::image::decode(bytes);
});
