//! JPEG files against the pixels that Pillow decodes from them, and damaged ones.
//!
//! The files and how they were made: `crates/softdiff/tests/golden/pictures/README.md`.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use safetensors::SafeTensors;
use softdiff_jpeg::{JpegError, JpegImage, JpegLimits, decode, quantization};
use std::cell::Cell;
use std::path::{Path, PathBuf};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../softdiff/tests/golden/pictures").join(name)
}

/// Every golden JPEG file, and the picture it must give.
fn pictures() -> Vec<(String, Vec<u8>, JpegImage)> {
    let pixels = std::fs::read(golden("pixels.safetensors")).unwrap();
    let pixels = SafeTensors::deserialize(&pixels).unwrap();
    let jpegs = pixels.tensors().into_iter().filter(|(name, _)| name.ends_with(".jpg"));
    let read = |(name, tensor): (String, safetensors::tensor::TensorView)| {
        let &[height, width, channels] = tensor.shape() else { panic!("{name}") };
        let file = std::fs::read(golden(&name)).unwrap();
        (name, file, JpegImage { width, height, channels, pixels: tensor.data().to_vec() })
    };
    jpegs.map(read).collect()
}

fn decoded(bytes: &[u8]) -> Result<JpegImage, JpegError> {
    decode(bytes, JpegLimits::default())
}

#[test]
fn the_table_of_luma_is_that_of_pillow() {
    // The first row of `Image.open(file).quantization[0]`, Pillow 13.0.
    for (name, row) in [
        ("baseline-420.jpg", [5, 3, 3, 5, 7, 12, 15, 18]),
        ("grey.jpg", [6, 4, 4, 6, 10, 16, 20, 24]),
        ("cmyk.jpg", [3, 2, 2, 3, 5, 8, 10, 12]),
        ("optimized.jpg", [20, 14, 13, 20, 30, 50, 64, 76]),
        ("progressive-restart.jpg", [13, 9, 8, 13, 19, 32, 41, 49]),
    ] {
        let table = quantization(&std::fs::read(golden(name)).unwrap()).unwrap();
        assert_eq!(table[..8], row, "{name}");
    }
}

#[test]
fn every_kind_of_jpeg_has_the_pixels_of_pillow() {
    let pictures = pictures();
    assert_eq!(pictures.len(), 19);
    for (name, file, expected) in pictures {
        assert!(decoded(&file).unwrap() == expected, "{name}");
    }
}

#[test]
fn limits_are_checked_before_anything_is_decoded() {
    let file = std::fs::read(golden("baseline-420.jpg")).unwrap();
    let refused = |max_side, max_bytes| decode(&file, JpegLimits { max_side, max_bytes }).unwrap_err();
    assert_eq!(refused(36, 1 << 20), JpegError::Side { width: 37, height: 29, limit: 36 });
    assert_eq!(refused(37, 3218), JpegError::Allocation { bytes: 37 * 29 * 3, limit: 3218 });
    let frame = file.windows(2).position(|pair| pair == [0xFF, 0xC0]).unwrap();
    let mut claims = file.clone();
    claims[frame + 5..frame + 9].copy_from_slice(&[0x20, 0, 0x20, 0]);
    assert!(matches!(decoded(&claims), Err(JpegError::Claims { width: 8192, height: 8192, .. })));
}

#[test]
fn a_cut_jpeg_is_refused_wherever_it_is_cut() {
    for (name, file, expected) in pictures() {
        for length in 0..file.len() {
            // What comes after the last pixel may be missing.
            assert!(decoded(&file[..length]).map_or(true, |image| image == expected), "{name} cut to {length}");
        }
    }
}

#[test]
fn damaging_a_jpeg_anywhere_never_panics() {
    let rounds = if cfg!(debug_assertions) { 20 } else { 1500 };
    let config = Config { cases: rounds, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    // Numbers at their limits and markers, more often than other bytes.
    let byte = prop_oneof![select(&[0, 0xFF, 0xD9, 0xDA, 0xC4][..]), any::<u8>()];
    let damages = vec((any::<Index>(), byte), 1..5);
    let whole = Cell::new(0);
    for (_, file, _) in pictures() {
        let result = runner.run(&damages, |damages| {
            let mut bytes = file.clone();
            damages.iter().for_each(|(place, byte)| *place.get_mut(&mut bytes) = *byte);
            whole.set(whole.get() + u32::from(decoded(&bytes).is_ok()));
            assert!(decoded(&bytes).is_err() || quantization(&bytes).is_ok());
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{error}"));
    }
    // The test would be empty if nothing got past the headers.
    assert!(whole.get() > rounds / 10, "{whole:?}");
}
