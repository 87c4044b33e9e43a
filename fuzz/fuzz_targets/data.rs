//! A whole data set of any format: zip, tar, gzip, npy, npz, IDX, Parquet, and the pictures in them; loaded, and cut into crops.
#![no_main]

use libfuzzer_sys::fuzz_target;
use softdiff::data::{BadLimit, CropOptions, Exif, LoadOptions, OnBad, Source, Split};
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(source) = Source::from_bytes(Path::new("fuzz"), bytes.to_vec(), Split::All) {
        let options = LoadOptions { on_bad: OnBad::Skip, ..LoadOptions::default() };
        let _ = source.load(&options, &|_, _| {});
        if source.len() > 1000 {
            return;
        }
        let (side, count, cap, held_out, seed) = (8, Some(source.len().max(8)), None, 0.1, 0);
        let options = CropOptions {
            side,
            count,
            cap,
            held_out,
            seed,
            channels: None,
            exif: Exif::Apply,
            on_bad: OnBad::Skip,
            on_bad_limit: BadLimit::default(),
        };
        if let Ok(plan) = source.plan_crops(&options, &|_, _| {}) {
            plan.write(&mut std::io::sink(), &"fuzz".into(), &|_, _| {}).expect("what was planned is written");
        }
    }
});
