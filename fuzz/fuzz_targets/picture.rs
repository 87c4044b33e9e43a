//! One picture of any format, alone, and with its metadata, which a restored photograph keeps.
#![no_main]

use libfuzzer_sys::fuzz_target;
use softdiff::image::{PhotographFile, decode};

fuzz_target!(|bytes: &[u8]| {
    let _ = decode(bytes);
    if let Ok(file) = PhotographFile::read(bytes) {
        let copy = PhotographFile::read(&file.to_png(&file.picture)).expect("what is written is read");
        assert_eq!((copy.picture, copy.alpha), (file.picture, file.alpha));
    }
});
