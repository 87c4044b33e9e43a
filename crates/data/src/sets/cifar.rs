//! CIFAR-10 in its binary form: records of one label byte and 3 x 1024 samples, plane by plane (R, G, B).

use super::pictures::{Opened, Raw};
use super::source::read_within;
use super::{DataError, FileError, MAX_FILE_BYTES, MAX_PICTURES, Split};
use crate::archive::tar;
use softdiff_engine::memory;
use softdiff_engine::shared_bytes::SharedBytes;
use std::path::Path;

const SIDE: usize = 32;
const PLANE: usize = SIDE * SIDE;
const RECORD: usize = 1 + 3 * PLANE;
const CLASSES: [&str; 10] = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];
const TRAIN: [&str; 5] =
    ["data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"];
const TEST: [&str; 1] = ["test_batch.bin"];
/// The folder inside the official archive.
const FOLDER: &str = "cifar-10-batches-bin";

/// Whether a file is one of the batches.
pub fn is_batch(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or_default();
    TRAIN.contains(&file) || TEST.contains(&file)
}

/// Whether bytes are whole records with labels from 0 to 9: a batch under another name.
pub fn is_records(bytes: &[u8]) -> bool {
    let (records, rest) = bytes.as_chunks::<RECORD>();
    !records.is_empty() && rest.is_empty() && records.iter().all(|record| usize::from(record[0]) < CLASSES.len())
}

/// Whether a folder is that of CIFAR-10, or holds it.
pub fn recognise_folder(path: &Path) -> Option<std::path::PathBuf> {
    let holds = |folder: &Path| TRAIN.iter().chain(&TEST).any(|name| folder.join(name).is_file());
    [path.to_path_buf(), path.join(FOLDER)].into_iter().find(|folder| holds(folder))
}

/// Opens the folder.
pub fn open_folder(folder: &Path, split: Split) -> Result<Opened, DataError> {
    let batches = batches(split).into_iter().map(|name| {
        let path = folder.join(name);
        let bytes = read_within(&path, MAX_FILE_BYTES);
        Ok((name.to_string(), bytes.map_err(|error| DataError::file(path.display().to_string(), error))?))
    });
    open(batches.collect::<Result<_, DataError>>()?)
}

/// Opens the official archive, once unpacked in memory.
pub fn open_tar(
    path: &Path,
    bytes: &SharedBytes,
    entries: &[tar::TarEntry],
    split: Split,
) -> Result<Opened, DataError> {
    let batches = batches(split).into_iter().map(|name| {
        let entry = entries.iter().find(|entry| entry.kind == tar::TarKind::File && entry.name.ends_with(name));
        let data = entry.and_then(|entry| bytes.slice(entry.data.clone()));
        let missing = || DataError::Unknown { path: path.into(), found: format!("a CIFAR-10 archive without {name}") };
        Ok((name.to_string(), data.ok_or_else(missing)?))
    });
    open(batches.collect::<Result<_, DataError>>()?)
}

/// Opens one batch file.
pub fn open_file(name: &str, bytes: SharedBytes) -> Result<Opened, DataError> {
    open(vec![(name.to_string(), bytes)])
}

fn batches(split: Split) -> Vec<&'static str> {
    match split {
        Split::Train => TRAIN.to_vec(),
        Split::Test => TEST.to_vec(),
        Split::All => [&TRAIN[..], &TEST].concat(),
    }
}

fn open(batches: Vec<(String, SharedBytes)>) -> Result<Opened, DataError> {
    let bytes = batches.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    memory::require(bytes, "CIFAR-10", "give fewer records")?;
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for (name, bytes) in batches {
        decode(&bytes, &mut pixels, &mut labels).map_err(|error| DataError::file(name, error))?;
    }
    let raw = Raw {
        name: "CIFAR-10 ".into(),
        height: SIDE,
        width: SIDE,
        channels: 3,
        pixels: pixels.into(),
        labels: Some(labels),
    };
    let classes = CLASSES.map(String::from).to_vec();
    Ok(Opened { format: "CIFAR-10 binary", pictures: Box::new(raw), classes, ignored: 0, origin: None })
}

fn decode(bytes: &[u8], pixels: &mut Vec<u8>, labels: &mut Vec<u32>) -> Result<(), FileError> {
    const FORMAT: &str = "CIFAR-10";
    if bytes.is_empty() || !bytes.len().is_multiple_of(RECORD) {
        let reason = format!("{} bytes, expected a multiple of {RECORD}: the file is damaged or cut off", bytes.len());
        return Err(FileError::damaged(FORMAT, reason));
    }
    if (bytes.len() / RECORD + labels.len()) as u64 > MAX_PICTURES {
        return Err(FileError::damaged(FORMAT, "too many records"));
    }
    pixels.reserve(bytes.len());
    for (number, record) in bytes.as_chunks::<RECORD>().0.iter().enumerate() {
        let (&label, planes) = record.split_first().unwrap_or((&0, &[]));
        if usize::from(label) >= CLASSES.len() {
            return Err(FileError::damaged(FORMAT, format!("record {number} has label {label}, expected 0 to 9")));
        }
        labels.push(label.into());
        let (red, rest) = planes.split_at(PLANE);
        let (green, blue) = rest.split_at(PLANE);
        pixels.extend(red.iter().zip(green).zip(blue).flat_map(|((&red, &green), &blue)| [red, green, blue]));
    }
    Ok(())
}
