//! A whole data set of any format: zip, tar, gzip, npy, npz, IDX, Parquet, and the pictures in them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use softdiff::data::{LoadOptions, OnBad, Source, Split};
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(source) = Source::from_bytes(Path::new("fuzz"), bytes.to_vec(), Split::All) {
        let options = LoadOptions { on_bad: OnBad::Skip, ..LoadOptions::default() };
        let _ = source.load(&options, &|_, _| {});
    }
});
