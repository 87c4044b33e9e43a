//! Images in NumPy arrays: uint8, or floats from 0 to 1; rows, columns, channels.
//!
//! Results are handed over without a copy. What is given is copied once: other threads of Python may change it while the
//! library reads.

use crate::error::{raised, with_hint};
use numpy::ndarray::ArrayD;
use numpy::{Element, IntoPyArray, PyArrayDyn, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use softdiff::Dataset;
use softdiff::corruption::Shape;
use softdiff::image::{Picture, decode, from_unit, image_file, to_unit};
use std::path::{Path, PathBuf};

/// Floats a little outside of [0, 1] are the rims of samples; these are in other units.
const LOWEST: f64 = -0.5;
const HIGHEST: f64 = 1.5;

/// The values of some images.
pub enum Pixels {
    /// From 0 to 255.
    Bytes(Vec<u8>),
    /// From 0 to 1, or a little outside.
    Values(Vec<f64>),
}

/// Images of one size from an array.
pub struct Images {
    /// Of each.
    pub shape: Shape,
    /// Their values.
    pub pixels: Pixels,
    /// The array's own shape, for results like it.
    pub dimensions: Vec<usize>,
}

impl Images {
    /// The images of anything that NumPy makes an array of; `what` names the argument in messages.
    pub fn of(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Images> {
        let array = as_array(object, what)?;
        let shape = shape_of(array.shape(), what)?;
        let dimensions = array.shape().to_vec();
        let pixels = match kind(&array)?.as_str() {
            "u1" => Pixels::Bytes(copied::<u8>(&array)?),
            kind if kind.starts_with('f') => {
                let values = floats(&array)?;
                check_range(&values, what)?;
                Pixels::Values(values)
            }
            _ => return Err(wrong_type(&array, what)?),
        };
        Ok(Images { shape, pixels, dimensions })
    }

    /// The same, or those of a folder, an archive or a file.
    pub fn dataset_of(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Dataset> {
        match object.extract::<PathBuf>() {
            Ok(path) => Dataset::open(path).map_err(raised),
            Err(_) => Images::of(object, what)?.dataset(what),
        }
    }

    /// How many images there are.
    pub fn count(&self) -> usize {
        self.dimensions.iter().product::<usize>() / self.shape.len().max(1)
    }

    /// As values from 0 to 1.
    pub fn values(&self) -> Vec<f64> {
        match &self.pixels {
            Pixels::Bytes(bytes) => to_unit(bytes),
            Pixels::Values(values) => values.clone(),
        }
    }

    /// As bytes; floats are rounded to the nearest.
    pub fn bytes(self) -> Vec<u8> {
        match self.pixels {
            Pixels::Bytes(bytes) => bytes,
            Pixels::Values(values) => from_unit(&values),
        }
    }

    /// As a data set.
    pub fn dataset(self, what: &str) -> PyResult<Dataset> {
        if self.count() == 0 {
            return Err(PyValueError::new_err(format!("{what} has no images: its shape is {:?}", self.dimensions)));
        }
        let Shape { height, width, channels } = self.shape;
        Ok(Dataset::new(height, width, channels, self.bytes(), None, vec![]))
    }

    /// The only image.
    pub fn picture(self, what: &str) -> PyResult<Picture> {
        if self.count() != 1 {
            let message = format!("{what} has {} images; give one at a time", self.count());
            return Err(PyValueError::new_err(message));
        }
        let Shape { height, width, channels } = self.shape;
        Ok(Picture { width, height, channels, pixels: self.bytes() })
    }

    /// Values of the same images as an array of the type and shape that was given.
    pub fn like<'py>(&self, py: Python<'py>, values: Vec<f64>) -> PyResult<Bound<'py, PyAny>> {
        match self.pixels {
            Pixels::Bytes(_) => Ok(array(py, from_unit(&values), &self.dimensions)?.into_any()),
            Pixels::Values(_) => Ok(array(py, values, &self.dimensions)?.into_any()),
        }
    }
}

/// An image of an image file or of an array.
pub fn picture_of(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Picture> {
    let Ok(path) = object.extract::<PathBuf>() else { return Images::of(object, what)?.picture(what) };
    let Some(picture) = picture_file(&path) else {
        let problem = format!("{} is not an image file", path.display());
        return Err(with_hint(&problem, Some("give a PNG, JPEG or other image file, or an array")));
    };
    picture
}

/// What is in an image file; none of other files.
pub fn picture_file(path: &Path) -> Option<PyResult<Picture>> {
    let picture = decode(&image_file(path)?);
    Some(picture.map_err(|error| {
        let hint = "save it again as PNG, or give another image";
        with_hint(&format!("{}: {error}", path.display()), Some(hint))
    }))
}

/// x_t as floats of any range, of images of `shape`; also whether it is a single one.
pub fn noisy_values(object: &Bound<'_, PyAny>, what: &str, shape: Shape) -> PyResult<(Vec<f64>, Vec<usize>)> {
    let array = as_array(object, what)?;
    if !kind(&array)?.starts_with('f') {
        return Err(wrong_type(&array, what)?);
    }
    let dimensions = array.shape().to_vec();
    let wanted = [shape.height, shape.width, shape.channels];
    if dimensions != wanted && dimensions.get(1..) != Some(&wanted[..]) {
        let [h, w, c] = wanted;
        let message = format!("{what} has the shape {dimensions:?}; give [n, {h}, {w}, {c}] or [{h}, {w}, {c}]");
        return Err(PyValueError::new_err(message));
    }
    Ok((floats(&array)?, dimensions))
}

/// A matrix or a kernel: two dimensions of floats.
pub fn rows(object: &Bound<'_, PyAny>, what: &str) -> PyResult<(usize, usize, Vec<f64>)> {
    let array = as_array(object, what)?;
    let &[height, width] = array.shape() else {
        let message = format!("{what} has the shape {:?}; give two dimensions, rows and columns", array.shape());
        return Err(PyValueError::new_err(message));
    };
    Ok((height, width, floats(&array)?))
}

/// Hands values over to Python as an array of this shape, without a copy.
pub fn array<'py, T: Element>(
    py: Python<'py>,
    values: Vec<T>,
    dimensions: &[usize],
) -> PyResult<Bound<'py, PyArrayDyn<T>>> {
    let array = ArrayD::from_shape_vec(dimensions.to_vec(), values);
    Ok(array.map_err(|error| PyValueError::new_err(error.to_string()))?.into_pyarray(py))
}

/// The dimensions of `count` images.
pub fn batch_of(count: usize, shape: Shape) -> [usize; 4] {
    [count, shape.height, shape.width, shape.channels]
}

fn as_array<'py>(object: &Bound<'py, PyAny>, what: &str) -> PyResult<Bound<'py, PyUntypedArray>> {
    let numpy = object.py().import("numpy")?;
    let array = numpy.call_method1("asarray", (object,)).map_err(|error| {
        let message = format!("{what} is {}, not an array of images", type_name(object));
        let raised = PyTypeError::new_err(message);
        raised.set_cause(object.py(), Some(error));
        raised
    })?;
    match array.getattr("dtype")?.getattr("kind")?.extract::<String>()?.as_str() {
        "O" | "U" | "S" => {
            Err(PyTypeError::new_err(format!("{what} is {}, not an array of images", type_name(object))))
        }
        _ => Ok(array.cast_into()?),
    }
}

fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}

/// The kind and the size of an array's numbers, such as `f8` and `u1`.
fn kind(array: &Bound<'_, PyUntypedArray>) -> PyResult<String> {
    let dtype = array.as_any().getattr("dtype")?;
    let (kind, size): (String, usize) = (dtype.getattr("kind")?.extract()?, dtype.getattr("itemsize")?.extract()?);
    Ok(format!("{kind}{size}"))
}

fn floats(array: &Bound<'_, PyUntypedArray>) -> PyResult<Vec<f64>> {
    let numpy = array.py().import("numpy")?;
    copied::<f64>(numpy.call_method1("asarray", (array, "float64"))?.cast()?)
}

/// The values in the order of their places, whatever the array's strides.
fn copied<T: Element + Copy>(array: &Bound<'_, PyUntypedArray>) -> PyResult<Vec<T>> {
    let array: PyReadonlyArrayDyn<'_, T> = array.as_any().extract()?;
    Ok(match array.as_array().to_slice() {
        Some(values) => values.to_vec(),
        None => array.as_array().iter().copied().collect(),
    })
}

/// Height, width and channels of images in an array of these dimensions.
fn shape_of(dimensions: &[usize], what: &str) -> PyResult<Shape> {
    let wrong = |problem: &str| {
        let message = format!(
            "{what} has the shape {dimensions:?}: {problem}; give [n, height, width, channels], [height, width, \
             channels], [n, height, width] or [height, width], with 1 or 3 channels"
        );
        Err(PyValueError::new_err(message))
    };
    let shape = match *dimensions {
        [height, width] => Shape::new(height, width, 1),
        [height, width, channels @ (1 | 3)] => Shape::new(height, width, channels),
        [_, height, width] => Shape::new(height, width, 1),
        [_, height, width, channels @ (1 | 3)] => Shape::new(height, width, channels),
        [_, 1 | 3, _, _] => return wrong("the channels come last, as after transpose(0, 2, 3, 1)"),
        [_, _, _, 4] => return wrong("alpha is no colour, drop it by [..., :3]"),
        [_, _, _, _] => return wrong("these are no channels"),
        _ => return wrong("this is no array of images"),
    };
    if shape.is_empty() { wrong("an image without pixels") } else { Ok(shape) }
}

fn check_range(values: &[f64], what: &str) -> PyResult<()> {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        if !value.is_finite() {
            return Err(PyValueError::new_err(format!("{what} contains {value}; every value must be finite")));
        }
        (least, most) = (least.min(*value), most.max(*value));
    }
    if least < LOWEST || most > HIGHEST {
        let message = format!(
            "{what} has floats from {least} to {most}; give uint8, or floats from 0 to 1 (values of 0 to 255 divided by \
             255, those of -1 to 1 as x / 2 + 0.5)"
        );
        return Err(PyValueError::new_err(message));
    }
    Ok(())
}

fn wrong_type(array: &Bound<'_, PyUntypedArray>, what: &str) -> PyResult<PyErr> {
    let dtype = array.as_any().getattr("dtype")?.str()?;
    Ok(PyTypeError::new_err(format!("{what} is of {dtype}; give uint8, or floats from 0 to 1")))
}
