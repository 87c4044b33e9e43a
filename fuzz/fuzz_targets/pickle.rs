//! The pickle alone: in a whole checkpoint the checksums would stop almost every change.
#![no_main]

use libfuzzer_sys::fuzz_target;
use softdiff::import::pickle;

fuzz_target!(|bytes: &[u8]| {
    let _ = pickle::read(bytes);
});
