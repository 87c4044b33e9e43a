//! Decoding and resizing against Pillow, and damaged pictures.

use forge::damage::damage_anywhere;
use safetensors::SafeTensors;
use softdiff::image::{ImageError, Picture, decode, decode_as_stored, resize};
use std::cell::Cell;
use std::path::{Path, PathBuf};

mod forge;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Every golden picture file, and the pixels it must give.
fn pictures() -> Vec<(String, Vec<u8>, Picture)> {
    let pixels = std::fs::read(golden("pictures/pixels.safetensors")).unwrap();
    let pixels = SafeTensors::deserialize(&pixels).unwrap();
    let mut pictures: Vec<_> = pixels
        .tensors()
        .into_iter()
        .map(|(name, tensor)| {
            let file = std::fs::read(golden("pictures").join(&name)).unwrap();
            (name, file, picture(tensor.shape(), tensor.data()))
        })
        .collect();
    pictures.sort_by(|a, b| a.0.cmp(&b.0));
    pictures
}

fn picture(shape: &[usize], data: &[u8]) -> Picture {
    let &[height, width, channels] = shape else { panic!("{shape:?}") };
    Picture { width, height, channels, pixels: data.to_vec() }
}

/// libwebp and image-webp round chroma differently; everything else must be equal.
const LOSSY_WEBP_TOLERANCE: u8 = 3;

#[test]
fn every_kind_of_picture_has_the_pixels_of_pillow() {
    let pictures = pictures();
    assert!(pictures.len() >= 52, "{}", pictures.len());
    for (name, file, expected) in pictures {
        let decoded = decode(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        let tolerance = if name == "lossy.webp" { LOSSY_WEBP_TOLERANCE } else { 0 };
        assert_eq!(
            (decoded.width, decoded.height, decoded.channels),
            (expected.width, expected.height, expected.channels),
            "{name}"
        );
        let worst = decoded.pixels.iter().zip(&expected.pixels).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
        assert!(worst <= tolerance, "{name}: {worst}");
    }
}

#[test]
fn pictures_are_upright_as_pillow_turns_them_by_their_exif_orientation() {
    let upright = std::fs::read(golden("orientation/upright.safetensors")).unwrap();
    let upright = SafeTensors::deserialize(&upright).unwrap();
    assert_eq!(upright.len(), 13);
    for (name, tensor) in upright.tensors() {
        let file = std::fs::read(golden("orientation").join(&name)).unwrap();
        assert!(decode(&file).unwrap() == picture(tensor.shape(), tensor.data()), "{name}");
        assert_eq!(decode_as_stored(&file).unwrap().width, 7, "{name}");
        // Damaged EXIF data is no reason to refuse the pixels, nor to panic.
        damage_anywhere(&file, 0, 500, |damaged| drop(decode(damaged)));
    }
}

#[test]
fn resizing_is_pillows_bilinear_bit_for_bit() {
    let file = std::fs::read(golden("resize/resize.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&file).unwrap();
    let mut compared = 0;
    for (name, tensor) in file.tensors() {
        let [source, width, height] = name.split(' ').collect::<Vec<_>>()[..] else { continue };
        let source = file.tensor(source).unwrap();
        let source = picture(source.shape(), source.data());
        let resized = resize::bilinear(&source, width.parse().unwrap(), height.parse().unwrap());
        assert!(resized == picture(tensor.shape(), tensor.data()), "{name}");
        compared += 1;
    }
    assert_eq!(compared, 14);
}

#[test]
fn a_cut_picture_is_refused_wherever_it_is_cut() {
    for (name, file, expected) in pictures() {
        for length in 0..file.len() {
            match decode(&file[..length]) {
                // What comes after the last pixel may be missing.
                Ok(decoded) => assert!(decoded == expected || name == "lossy.webp", "{name} cut to {length}"),
                Err(ImageError::Side { .. } | ImageError::Allocation { .. }) => panic!("{name} cut to {length}"),
                Err(_) => {}
            }
        }
    }
}

#[test]
fn damaging_a_picture_anywhere_never_panics() {
    let rounds = if cfg!(debug_assertions) { 20 } else { 1500 };
    let decoded = Cell::new(0);
    for (_, file, _) in pictures() {
        damage_anywhere(&file, 0, rounds, |bytes| decoded.set(decoded.get() + usize::from(decode(bytes).is_ok())));
    }
    // The test would be empty if nothing got past the headers.
    assert!(decoded.get() > rounds, "{decoded:?}");
}
