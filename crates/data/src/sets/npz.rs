//! NumPy archives (`.npz`): read with the names that people use, written by `softdiff data prepare` and `softdiff sample`.
//!
//! Written are `arr_0` (images) and `arr_1` (labels), the names that `np.savez` gives and the evaluator of guided-diffusion (ADM)
//! reads. Every member is an array, so that a loop over them works: what else is known is JSON in an array of bytes.
//!
//! Why npz for prepared data: it is an ordinary file that NumPy, PyTorch and JAX users open with `np.load`, it is read here
//! without decoding anything, and its entries are stored, so that reading is copying.

use super::dataset::DatasetHasher;
use super::npy::Array;
use super::pictures::{Chain, Opened, Pictures, Raw};
use super::{DataError, Dataset, FileError, MAX_FILE_BYTES, Split};
use crate::archive::zip::{Index, StoredZip};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use softdiff_engine::shared_bytes::SharedBytes;
use std::io::{self, Write};
use std::path::Path;

const PLAIN: ([&str; 6], [&str; 6]) =
    (["images", "image", "x", "X", "data", "arr_0"], ["labels", "label", "y", "Y", "targets", "arr_1"]);
const TRAIN: ([&str; 6], [&str; 6]) = (
    ["x_train", "X_train", "train_images", "images_train", "train_x", "train"],
    ["y_train", "Y_train", "train_labels", "labels_train", "train_y", "train_label"],
);
const TEST: ([&str; 6], [&str; 6]) = (
    ["x_test", "X_test", "test_images", "images_test", "test_x", "test"],
    ["y_test", "Y_test", "test_labels", "labels_test", "test_y", "test_label"],
);
/// What is known of the images: the member `dataset_json`, or the entry `dataset.json` of older files, which is no array.
pub(super) const FACTS: &str = "dataset";
/// Longest JSON that is read.
const MAX_JSON: u64 = 1 << 20;

/// Whether every entry of an archive is an array.
pub fn recognise(index: &Index) -> bool {
    index.names().any(|name| name.ends_with(".npy"))
        && index.names().all(|name| name.ends_with(".npy") || name == "dataset.json")
}

/// Reads the arrays of one part.
pub fn open(path: &Path, bytes: &SharedBytes, index: &Index, split: Split) -> Result<Opened, DataError> {
    let has = |name: &str| index.names().any(|entry| entry.strip_suffix(".npy") == Some(name));
    let find = |(images, labels): ([&'static str; 6], [&'static str; 6])| {
        let image = images.into_iter().find(|name| has(name))?;
        Some((image, labels.into_iter().find(|name| has(name))))
    };
    let chosen: Vec<_> = match (find(PLAIN), find(TRAIN), find(TEST), split) {
        (_, Some(train), _, Split::Train) => vec![train],
        (_, _, Some(test), Split::Test) => vec![test],
        (None, train, test, Split::All) => train.into_iter().chain(test).collect(),
        (Some(plain), None, None, Split::Train | Split::All) | (Some(plain), _, _, Split::All) => vec![plain],
        (.., Split::Test) => return Err(DataError::NoSplit { path: path.into(), split: "test" }),
        _ => Vec::new(),
    };
    if chosen.is_empty() {
        let names: Vec<&str> = index.names().take(8).collect();
        let found = format!(
            "its arrays are {}; expected images (or x, data, arr_0, x_train) and, if any, labels",
            names.join(", ")
        );
        return Err(DataError::Unknown { path: path.into(), found });
    }
    let mut parts: Vec<Box<dyn Pictures>> = Vec::new();
    for (images, labels) in chosen {
        parts.push(Box::new(
            read(bytes, index, images, labels)
                .map_err(|(entry, error)| DataError::file(format!("{}/{entry}.npy", path.display()), error))?,
        ));
    }
    let facts: Value = read_json(bytes, index, FACTS).unwrap_or_default();
    let (classes, origin) = (classes(&facts).unwrap_or_default(), facts.get("origin").cloned());
    Ok(Opened { format: "NumPy archive", pictures: Box::new(Chain(parts)), classes, ignored: 0, origin })
}

fn read<'a>(
    bytes: &SharedBytes,
    index: &Index,
    images: &'a str,
    labels: Option<&'a str>,
) -> Result<Raw, (&'a str, FileError)> {
    let array = |name: &str| index.shared(bytes, &format!("{name}.npy"), MAX_FILE_BYTES).map_err(FileError::from);
    let pictures = array(images).and_then(|bytes| Array::read(&bytes)?.pictures(images, &bytes));
    let mut pictures = pictures.map_err(|error| (images, error))?;
    if let Some(labels) = labels {
        let read = array(labels).and_then(|bytes| Array::read(&bytes)?.labels(pictures.len()));
        pictures.labels = Some(read.map_err(|error| (labels, error))?);
    }
    Ok(pictures)
}

/// The JSON called `name` in an archive, as [`write_json`] writes it, or as a plain entry as older files have it.
pub fn read_json<T: DeserializeOwned>(bytes: &[u8], index: &Index, name: &str) -> Option<T> {
    if let Ok(array) = index.read(bytes, &format!("{name}_json.npy"), MAX_JSON) {
        return serde_json::from_slice(Array::read(&array).ok()?.bytes()?).ok();
    }
    serde_json::from_slice(&index.read(bytes, &format!("{name}.json"), MAX_JSON).ok()?).ok()
}

/// Adds JSON to an archive as an array of bytes: in Python, `json.loads(bytes(file[name + "_json"]))`.
pub fn write_json<W: Write>(zip: &mut StoredZip<W>, name: &str, value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(value)?;
    zip.entry(&format!("{name}_json.npy"), &[&npy_header("|u1", &[text.len()]), &text])
}

fn classes(facts: &Value) -> Option<Vec<String>> {
    facts.get("classes")?.as_array()?.iter().map(|name| name.as_str().map(String::from)).collect()
}

/// Writes a data set; the same bytes for the same data set. `origin` says where the pictures come from and what was done to them.
pub fn write(out: &mut impl Write, dataset: &Dataset, origin: &Value) -> io::Result<()> {
    let shape = [dataset.len(), dataset.height(), dataset.width(), dataset.channels()];
    let mut npz = NpzWriter::new(out, shape, dataset.labels())?;
    dataset.shared_pixels().blocks(dataset.picture_size()).try_for_each(|images| npz.add(images))?;
    npz.finish(dataset.classes(), origin)
}

/// Writes images as they come: `arr_0` (uint8, `[n, h, w, c]`), `arr_1` (labels, int64) if there are any, and `dataset_json`.
pub struct NpzWriter<W: Write> {
    zip: StoredZip<W>,
    labels: Option<Vec<u32>>,
    hasher: DatasetHasher,
    /// Bytes of images still to come.
    left: u64,
}

impl<W: Write> NpzWriter<W> {
    /// Begins a file of so many images, height, width and channels.
    pub fn new(out: W, shape: [usize; 4], labels: Option<&[u32]>) -> io::Result<NpzWriter<W>> {
        let mut zip = StoredZip::new(out);
        let header = npy_header("|u1", &shape);
        let left = shape.iter().map(|&size| size as u64).product();
        zip.begin("arr_0.npy", header.len() as u64 + left)?;
        zip.append(&header)?;
        Ok(NpzWriter { zip, labels: labels.map(<[u32]>::to_vec), hasher: DatasetHasher::new(shape, labels), left })
    }

    /// The next images, whole ones.
    pub fn add(&mut self, pixels: &[u8]) -> io::Result<()> {
        let too_many = || io::Error::other("more images than the file was begun for");
        self.left = self.left.checked_sub(pixels.len() as u64).ok_or_else(too_many)?;
        self.hasher.add(pixels);
        self.zip.append(pixels)
    }

    /// Writes the labels and what is known of the images. All of them must have come.
    pub fn finish(mut self, classes: &[String], origin: &Value) -> io::Result<()> {
        if self.left > 0 {
            return Err(io::Error::other("fewer images than the file was begun for"));
        }
        if let Some(labels) = self.labels {
            let data: Vec<u8> = labels.iter().flat_map(|&label| i64::from(label).to_le_bytes()).collect();
            self.zip.entry("arr_1.npy", &[&npy_header("<i8", &[labels.len()]), &data])?;
        }
        let hash = self.hasher.finish().to_string();
        let facts = json!({ "format": "softdiff dataset 1", "classes": classes, "hash": hash, "origin": origin });
        write_json(&mut self.zip, FACTS, &facts)?;
        self.zip.finish()
    }
}

/// Padded with spaces to a multiple of 64 bytes, as NumPy does.
pub fn npy_header(dtype: &str, shape: &[usize]) -> Vec<u8> {
    let shape: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let text = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({}), }}", shape.trim_end());
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend((length as u16).to_le_bytes());
    header.extend(format!("{text:<width$}\n", width = length - 1).bytes());
    header
}
