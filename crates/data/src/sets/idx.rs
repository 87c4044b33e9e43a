//! IDX files (MNIST and its family): big-endian sizes, then bytes; raw or gzipped, labels in a file beside.

use super::pictures::{Opened, Pictures, Raw};
use super::source::{read_within, unpacked};
use super::{DataError, FileError, MAX_FILE_BYTES, MAX_PICTURES, Split};
use crate::image::MAX_SIDE;
use softdiff_engine::shared_bytes::SharedBytes;
use std::path::{Path, PathBuf};

const FORMAT: &str = "IDX";
const PICTURES: &[u8] = &[0, 0, 8, 3];
const COLOUR_PICTURES: &[u8] = &[0, 0, 8, 4];
const LABELS: &[u8] = &[0, 0, 8, 1];

/// Whether these bytes begin like images.
pub fn recognise(bytes: &[u8]) -> bool {
    bytes.starts_with(PICTURES) || bytes.starts_with(COLOUR_PICTURES)
}

/// The image files of a folder, sorted by name, with the part each belongs to.
pub fn find(folder: &Path) -> Vec<(PathBuf, Split)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_string();
    let is_pictures = |path: &PathBuf| {
        let name = name(path);
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        (name.ends_with("idx3-ubyte") || name.ends_with("idx4-ubyte")) && path.is_file()
    };
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_pictures).collect();
    found.sort();
    // The packed and the raw form of one file are one.
    found.dedup_by(|later, earlier| later.with_extension("") == *earlier);
    let part = |path: &Path| match name(path) {
        name if name.contains("train") => Split::Train,
        name if name.contains("t10k") || name.contains("test") => Split::Test,
        _ => Split::All,
    };
    found.into_iter().map(|path| (path.clone(), part(&path))).collect()
}

/// Opens the image files of one part.
pub fn open_files(files: &[PathBuf]) -> Result<Opened, DataError> {
    let read = |path: &PathBuf| read_within(path, MAX_FILE_BYTES).and_then(unpacked);
    open_all(files.iter().map(|path| (path.clone(), read(path))))
}

/// The same for image files in memory.
pub fn open_all(
    files: impl IntoIterator<Item = (PathBuf, Result<SharedBytes, FileError>)>,
) -> Result<Opened, DataError> {
    let mut parts: Vec<Box<dyn Pictures>> = Vec::new();
    for (path, bytes) in files {
        let bytes = bytes.map_err(|error| DataError::file(path.display().to_string(), error))?;
        parts.push(Box::new(open(&path, bytes)?));
    }
    let labelled = parts.iter().all(|part| part.label(0).is_some());
    let classes = if labelled { class_names(&parts) } else { Vec::new() };
    Ok(Opened { format: "IDX", pictures: Box::new(super::pictures::Chain(parts)), classes, ignored: 0, origin: None })
}

/// Labels are numbers only, so are the names of the classes.
fn class_names(parts: &[Box<dyn Pictures>]) -> Vec<String> {
    let most = parts.iter().flat_map(|part| (0..part.len()).filter_map(|index| part.label(index))).max();
    most.map(|most| (0..=most).map(|label| label.to_string()).collect()).unwrap_or_default()
}

/// Images, with the labels of the file next to it if there is one.
fn open(path: &Path, bytes: SharedBytes) -> Result<Raw, DataError> {
    let mut raw = read_pictures(&bytes).map_err(|error| DataError::file(path.display().to_string(), error))?;
    raw.name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(beside) = labels_beside(path) {
        let file = beside.display().to_string();
        let labels =
            read_within(&beside, MAX_FILE_BYTES).and_then(unpacked).and_then(|bytes| read_labels(&bytes, raw.len()));
        raw.labels = Some(labels.map_err(|error| DataError::file(file, error))?);
    }
    Ok(raw)
}

fn labels_beside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_suffix(".gz").unwrap_or(name);
    let labels = stem.replace("images", "labels").replace("idx3", "idx1").replace("idx4", "idx1");
    let candidates = [labels.clone(), format!("{labels}.gz")];
    candidates.iter().map(|labels| path.with_file_name(labels)).find(|beside| beside != path && beside.is_file())
}

fn read_pictures(bytes: &SharedBytes) -> Result<Raw, FileError> {
    let dimensions = if bytes.starts_with(COLOUR_PICTURES) { 4 } else { 3 };
    let (sizes, data) = header(bytes, dimensions)?;
    let (&[count, height, width], channels) = match sizes.as_slice() {
        [sizes @ .., channels] if dimensions == 4 => (sizes.first_chunk().unwrap_or(&[0; 3]), *channels),
        sizes => (sizes.first_chunk().unwrap_or(&[0; 3]), 1),
    };
    let sides = 1..=MAX_SIDE;
    if !sides.contains(&height) || !sides.contains(&width) || !matches!(channels, 1 | 3) || count as u64 > MAX_PICTURES
    {
        let reason = format!("{count} images of {width} x {height} x {channels}: outside the limits");
        return Err(FileError::damaged(FORMAT, reason));
    }
    check_length(data, count as u64 * (height * width * channels) as u64)?;
    let pixels = bytes.slice(bytes.len() - data.len()..bytes.len()).expect("the data are the end of the file");
    Ok(Raw { name: String::new(), height, width, channels, pixels, labels: None })
}

fn read_labels(bytes: &[u8], pictures: usize) -> Result<Vec<u32>, FileError> {
    if !bytes.starts_with(LABELS) {
        return Err(FileError::damaged(FORMAT, "not a file of labels"));
    }
    let (sizes, data) = header(bytes, 1)?;
    check_length(data, sizes.first().copied().unwrap_or(0) as u64)?;
    if data.len() != pictures {
        return Err(FileError::damaged(FORMAT, format!("{} labels for {pictures} images", data.len())));
    }
    Ok(data.iter().map(|&label| label.into()).collect())
}

fn header(bytes: &[u8], dimensions: usize) -> Result<(Vec<usize>, &[u8]), FileError> {
    let cut = || FileError::damaged(FORMAT, "the header is cut off");
    let (header, data) = bytes.split_at_checked(4 + 4 * dimensions).ok_or_else(cut)?;
    let sizes = header.as_chunks::<4>().0.iter().skip(1).map(|&size| u32::from_be_bytes(size) as usize);
    Ok((sizes.collect(), data))
}

fn check_length(data: &[u8], expected: u64) -> Result<(), FileError> {
    if data.len() as u64 == expected {
        return Ok(());
    }
    let reason = format!("{} bytes after the header, expected {expected}: the file is damaged or cut off", data.len());
    Err(FileError::damaged(FORMAT, reason))
}
