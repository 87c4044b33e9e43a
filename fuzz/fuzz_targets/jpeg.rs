//! One JPEG picture.
#![no_main]

use libfuzzer_sys::fuzz_target;
use softdiff_jpeg::JpegLimits;

fuzz_target!(|bytes: &[u8]| {
    let _ = softdiff_jpeg::decode(bytes, JpegLimits::default());
    let _ = softdiff_jpeg::quantization(bytes);
});
