//! A part of Fashion-MNIST inside the program: 4 096 training and 1 024 test pictures (`assets/fashion-mnist`, MIT licence).

use super::pictures::{Opened, Raw};
use super::{DataError, Dataset, FileError, LoadOptions, Source, Split};
use crate::image;
use std::path::Path;

/// What a path to an embedded set begins with.
pub const PREFIX: &str = "embedded:";
const NAME: &str = "fashion-mnist";
const SIDE: usize = 28;
const CLASSES: [&str; 10] =
    ["t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"];

/// A sheet of images and their labels.
type Sheet = (&'static [u8], &'static [u8]);
const TRAIN: Sheet =
    (include_bytes!("../../assets/fashion-mnist/train.png"), include_bytes!("../../assets/fashion-mnist/train.labels"));
const TEST: Sheet =
    (include_bytes!("../../assets/fashion-mnist/test.png"), include_bytes!("../../assets/fashion-mnist/test.labels"));

/// Opens a set by its name.
pub fn open(name: &str, split: Split) -> Result<Opened, DataError> {
    if name != NAME {
        return Err(DataError::UnknownEmbedded { name: name.into() });
    }
    let sheets: &[Sheet] = match split {
        Split::Train => &[TRAIN],
        Split::Test => &[TEST],
        Split::All => &[TRAIN, TEST],
    };
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for (sheet, sheet_labels) in sheets {
        cut(sheet, &mut pixels).map_err(|error| DataError::file(NAME, error))?;
        labels.extend(sheet_labels.iter().map(|&label| u32::from(label)));
    }
    let raw = Raw {
        name: "Fashion-MNIST ".into(),
        height: SIDE,
        width: SIDE,
        channels: 1,
        pixels: pixels.into(),
        labels: Some(labels),
    };
    let classes = CLASSES.map(String::from).to_vec();
    Ok(Opened { format: "embedded Fashion-MNIST", pictures: Box::new(raw), classes, ignored: 0, origin: None })
}

/// Cuts a sheet into its images, row by row.
fn cut(sheet: &[u8], pixels: &mut Vec<u8>) -> Result<(), FileError> {
    let sheet = image::decode(sheet)?;
    for row in sheet.pixels.chunks_exact(sheet.width * SIDE) {
        for left in (0..sheet.width).step_by(SIDE) {
            pixels.extend(row.chunks_exact(sheet.width).flat_map(|line| &line[left..left + SIDE]));
        }
    }
    Ok(())
}

impl Dataset {
    /// The training part of the embedded Fashion-MNIST, also known as the path `embedded:fashion-mnist`.
    pub fn embedded() -> Result<Dataset, DataError> {
        Source::open(Path::new("embedded:fashion-mnist"))?.load(&LoadOptions::default(), &|_, _| {})
    }
}
