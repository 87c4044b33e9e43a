//! NumPy arrays (`.npy`, format versions 1 to 3): pictures as `[n, h, w]` or `[n, h, w, c]`, bytes or floats from 0 to 1.

use super::pictures::Raw;
use super::{FileError, MAX_PICTURES};
use crate::bytes::Bytes;
use crate::image::{MAX_SIDE, Quantise};
use crate::quote::quote;
use softdiff_engine::memory;
use softdiff_engine::shared_bytes::SharedBytes;

const FORMAT: &str = "npy";
const MAGIC: &[u8] = b"\x93NUMPY";
/// Real headers have some 100 bytes.
const MAX_HEADER: u64 = 1 << 16;

/// Whether these bytes begin like an array.
pub fn recognise(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// An array as it lies in the file, row-major.
pub struct Array<'a> {
    /// Byte order, kind and size, as in `<f4`.
    dtype: &'a str,
    /// The size along each axis.
    pub shape: Vec<u64>,
    data: &'a [u8],
}

impl<'a> Array<'a> {
    /// Reads the header and checks that the data are as long as it says.
    pub fn read(bytes: &'a [u8]) -> Result<Self, FileError> {
        let mut cursor = Bytes::new(bytes, "npy header");
        if cursor.take(MAGIC.len() as u64)? != MAGIC {
            return Err(FileError::damaged(FORMAT, "not an npy file"));
        }
        let (major, _minor) = (cursor.u8()?, cursor.u8()?);
        let length = match major {
            1 => cursor.u16()?.into(),
            2 | 3 => u64::from(cursor.u32()?),
            _ => return Err(FileError::unsupported(FORMAT, format!("format version {major}, expected 1 to 3"))),
        };
        if length > MAX_HEADER {
            return Err(FileError::damaged(
                FORMAT,
                format!("a header of {length} bytes, more than the limit of {MAX_HEADER}"),
            ));
        }
        let header = cursor.take(length)?;
        let data = cursor.take(cursor.left() as u64)?;
        let header =
            std::str::from_utf8(header).map_err(|_| FileError::damaged(FORMAT, "a header that is not text"))?;
        let field = |key: &str| {
            let missing = || FileError::damaged(FORMAT, format!("no {key} in the header {}", quote(header)));
            header.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start()).ok_or_else(missing)
        };
        let dtype = field("descr")?.strip_prefix('\'').and_then(|rest| rest.split('\'').next());
        let dtype = dtype.ok_or_else(|| FileError::unsupported(FORMAT, "an array of records, expected numbers"))?;
        if !field("fortran_order")?.starts_with("False") {
            return Err(FileError::unsupported(FORMAT, "Fortran order: save it with np.ascontiguousarray(x)"));
        }
        let shape = field("shape")?.strip_prefix('(').and_then(|rest| rest.split(')').next()).unwrap_or_default();
        let sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty()).take(9).map(str::parse);
        let numbers = sizes.collect::<Result<Vec<u64>, _>>();
        let shape =
            numbers.map_err(|_| FileError::damaged(FORMAT, format!("the shape ({}) is not one", quote(shape))))?;
        let array = Array { dtype, shape, data };
        array.check_length()?;
        Ok(array)
    }

    fn item_size(&self) -> Result<u64, FileError> {
        let unsupported = || {
            FileError::unsupported(
                FORMAT,
                format!("numbers of type {}, expected uint8 or floats from 0 to 1", quote(self.dtype)),
            )
        };
        if self.dtype.starts_with('>') {
            return Err(FileError::unsupported(
                FORMAT,
                "big-endian numbers: save it with x.astype(x.dtype.newbyteorder('<'))",
            ));
        }
        let kind = self.dtype.get(1..2).unwrap_or_default();
        let size = self.dtype.get(2..).and_then(|size| size.parse().ok());
        match (kind, size) {
            ("u" | "i", Some(size @ (1 | 2 | 4 | 8))) | ("f", Some(size @ (4 | 8))) => Ok(size),
            _ => Err(unsupported()),
        }
    }

    fn check_length(&self) -> Result<(), FileError> {
        let item = self.item_size()?;
        let expected = self.shape.iter().try_fold(item, |product, &size| product.checked_mul(size));
        let found = self.data.len() as u64;
        if expected == Some(found) {
            return Ok(());
        }
        let expected = expected.map_or("more than 2^64".into(), |expected| expected.to_string());
        Err(FileError::damaged(
            FORMAT,
            format!("{found} bytes of data, but the shape {:?} needs {expected}", self.shape),
        ))
    }

    /// The array as images; `file` is what it was read from, of which bytes are a part.
    pub fn pictures(&self, name: &str, file: &SharedBytes) -> Result<Raw, FileError> {
        let (count, height, width, channels) = match *self.shape.as_slice() {
            [count, height, width] => (count, height, width, 1),
            [count, height, width, channels @ (1 | 3)] => (count, height, width, channels),
            [_, 1 | 3, _, _] => {
                let what =
                    format!("shape {:?} has the channels first: save it with x.transpose(0, 2, 3, 1)", self.shape);
                return Err(FileError::unsupported(FORMAT, what));
            }
            _ => {
                let what = format!("shape {:?}, expected [n, height, width] or [n, height, width, 1 or 3]", self.shape);
                return Err(FileError::unsupported(FORMAT, what));
            }
        };
        let sides = 1..=MAX_SIDE as u64;
        if count > MAX_PICTURES || !sides.contains(&height) || !sides.contains(&width) {
            return Err(FileError::damaged(FORMAT, format!("shape {:?} is outside the limits", self.shape)));
        }
        let samples = self.data.len() as u64 / self.item_size()?;
        let hint = "save the array as uint8, which is read where it lies";
        let fits = || memory::require(samples, format!("the images of {name} as bytes"), hint);
        let pixels = match self.dtype.get(1..).unwrap_or_default() {
            "u1" => file.slice(file.len() - self.data.len()..file.len()).expect("the data are the end of the file"),
            "f4" => {
                fits()?;
                bytes_of(self.data.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes).into()))?.into()
            }
            "f8" => {
                fits()?;
                bytes_of(self.data.as_chunks().0.iter().map(|&bytes| f64::from_le_bytes(bytes)))?.into()
            }
            _ => {
                let what = format!("numbers of type {}, expected uint8 or floats from 0 to 1", quote(self.dtype));
                return Err(FileError::unsupported(FORMAT, what));
            }
        };
        let [height, width, channels] = [height, width, channels].map(|size| size as usize);
        Ok(Raw { name: name.into(), height, width, channels, pixels, labels: None })
    }

    /// The array as bytes: uint8 of one axis.
    pub(super) fn bytes(&self) -> Option<&'a [u8]> {
        (self.dtype.get(1..) == Some("u1") && self.shape.len() == 1).then_some(self.data)
    }

    /// The array as numbers: float32 or float64.
    pub fn floats(&self) -> Result<Vec<f64>, FileError> {
        match self.dtype.get(1..).unwrap_or_default() {
            "f4" => Ok(self.data.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes).into()).collect()),
            "f8" => Ok(self.data.as_chunks().0.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect()),
            _ => Err(FileError::unsupported(FORMAT, format!("numbers of type {}, expected floats", quote(self.dtype)))),
        }
    }

    /// The array as one label per picture: `[n]` or `[n, 1]` whole numbers.
    pub fn labels(&self, pictures: usize) -> Result<Vec<u32>, FileError> {
        if !matches!(*self.shape.as_slice(), [_] | [_, 1]) || self.shape.first() != Some(&(pictures as u64)) {
            let reason = format!("labels of shape {:?} for {pictures} images", self.shape);
            return Err(FileError::damaged(FORMAT, reason));
        }
        let kind = self.dtype.get(1..).unwrap_or_default();
        if kind.starts_with('f') {
            return Err(FileError::unsupported(FORMAT, "labels that are floats, expected whole numbers"));
        }
        let size = self.item_size()? as usize;
        let label = |bytes: &[u8]| {
            // Little-endian; a negative number has a high bit that does not fit.
            let wide = bytes.iter().rev().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
            let sign = kind.starts_with('i') && wide >> (8 * size - 1) & 1 == 1;
            let label = if sign { None } else { u32::try_from(wide).ok() };
            label.ok_or_else(|| FileError::damaged(FORMAT, "a label below 0 or above 2^32"))
        };
        self.data.chunks_exact(size).map(label).collect()
    }
}

/// Floats from 0 to 1 as bytes, rounded to the nearest.
fn bytes_of(values: impl ExactSizeIterator<Item = f64>) -> Result<Vec<u8>, FileError> {
    let byte = |(index, value): (usize, f64)| match value {
        0.0..=1.0 => Ok(Quantise::Round.byte(value)),
        _ => Err(FileError::NotABrightness { index, value }),
    };
    values.enumerate().map(byte).collect()
}
