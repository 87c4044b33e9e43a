//! A whole checkpoint: archive, pickle, tensors and their names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use softdiff::import::ScoreSdeCheckpoint;

fuzz_target!(|bytes: &[u8]| {
    let _ = ScoreSdeCheckpoint::from_bytes(bytes);
});
