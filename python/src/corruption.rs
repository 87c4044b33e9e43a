//! Corruptions: those of the registry by name, compositions, and linear maps of one's own.

use crate::arguments::word;
use crate::error::{raised, with_hint};
use crate::images::{Images, array, rows};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use softdiff::corruption::{self, Boundary, CorruptionSpec, Custom, ParameterKind, ParameterValue, Shape};
use softdiff::linalg::Matrix;
use softdiff::recipe::{CorruptionPart, CorruptionSection};
use std::sync::Arc;

/// The most values of an image whose corruption is a matrix: one of 0.5 GB.
const LARGEST_MATRIX: usize = 8192;

/// A family of linear maps, from the identity to the strongest, not yet made for images of a certain size.
#[pyclass(frozen, subclass, module = "softdiff")]
pub struct Corruption(pub CorruptionKind);

/// What a corruption is made from.
#[derive(Clone)]
pub enum CorruptionKind {
    /// One that recipes know.
    Known(CorruptionSection),
    /// Towards the correlation with a kernel.
    Kernel { kernel: Matrix, boundary: Boundary },
    /// Towards a matrix.
    Matrix(Matrix),
    /// Towards a linear function of Python.
    Function(Arc<Py<PyAny>>),
}

#[pymethods]
impl Corruption {
    /// By its name with its parameters. `softdiff.Blur` and the others are easier to call.
    #[new]
    #[pyo3(signature = (name, **parameters))]
    fn new(name: &str, parameters: Option<&Bound<'_, PyDict>>) -> PyResult<Corruption> {
        let mut spec = CorruptionSpec::named(name).map_err(raised)?;
        for (key, value) in parameters.into_iter().flatten() {
            let key: String = key.extract()?;
            if value.is_none() {
                continue;
            }
            let Some(parameter) = spec.entry().parameters.iter().find(|parameter| parameter.key == key) else {
                return Err(PyTypeError::new_err(format!("'{name}' has no parameter {key}")));
            };
            spec = spec.with(&key, parameter_value(parameter.kind, &key, &value)?);
        }
        Ok(Corruption(CorruptionKind::Known(CorruptionSection::One(spec))))
    }

    /// Towards a linear map: a matrix, a kernel or a function.
    #[staticmethod]
    #[pyo3(signature = (matrix=None, kernel=None, function=None, boundary="zero"))]
    fn custom(
        matrix: Option<&Bound<'_, PyAny>>,
        kernel: Option<&Bound<'_, PyAny>>,
        function: Option<Py<PyAny>>,
        boundary: &str,
    ) -> PyResult<Corruption> {
        let boundary = word("boundary", boundary, &Boundary::ALL.map(|boundary| (boundary.name(), boundary)))?;
        Ok(Corruption(match (matrix, kernel, function) {
            (Some(matrix), None, None) => CorruptionKind::Matrix(matrix_of(matrix, "matrix")?),
            (None, Some(kernel), None) => CorruptionKind::Kernel { kernel: matrix_of(kernel, "kernel")?, boundary },
            (None, None, Some(function)) => CorruptionKind::Function(Arc::new(function)),
            _ => return Err(PyTypeError::new_err("give one of matrix, kernel and function")),
        }))
    }

    /// One after the other; each is a corruption, or a tuple of a corruption and its part of the way, such as (blur, 0, 0.6).
    #[staticmethod]
    #[pyo3(signature = (*parts))]
    fn composed(parts: &Bound<'_, PyTuple>) -> PyResult<Corruption> {
        let part = |part: Bound<'_, PyAny>| -> PyResult<CorruptionPart> {
            let (corruption, from, until) = match part.extract::<(Bound<'_, PyAny>, f64, f64)>() {
                Ok(part) => part,
                Err(_) => (part, 0.0, 1.0),
            };
            let CorruptionKind::Known(section @ CorruptionSection::One(_)) = kind_of(&corruption)? else {
                return Err(PyTypeError::new_err("a composition takes single corruptions that have a name"));
            };
            if !(from >= 0.0 && from < until && until <= 1.0) {
                let hint = "give a rising part of 0 to 1, such as (0, 0.6)";
                return Err(with_hint(&format!("{} runs from {from} until {until}", section.kind()), Some(hint)));
            }
            Ok(CorruptionPart { from, until, ..CorruptionPart::new(section) })
        };
        let parts: Vec<CorruptionPart> = parts.iter().map(part).collect::<PyResult<_>>()?;
        match parts.is_empty() {
            true => Err(PyTypeError::new_err("a composition needs at least one corruption")),
            false => Ok(Corruption(CorruptionKind::Known(CorruptionSection::Composed { parts }))),
        }
    }

    /// The levels for images of this shape, (height, width, channels): that of the identity, and the strongest.
    fn levels(&self, py: Python<'_>, shape: (usize, usize, usize)) -> PyResult<(f64, f64)> {
        let levels = self.0.build(py, Shape::new(shape.0, shape.1, shape.2))?.levels();
        Ok((levels.clean, levels.full))
    }

    fn __repr__(&self) -> String {
        match &self.0 {
            CorruptionKind::Known(CorruptionSection::One(spec)) => format!("softdiff.Corruption({:?})", spec.name()),
            CorruptionKind::Known(section) => format!("softdiff.Corruption({:?})", section.kind()),
            CorruptionKind::Kernel { kernel, .. } => {
                format!("softdiff.Custom(kernel of {}x{})", kernel.rows(), kernel.cols())
            }
            CorruptionKind::Matrix(matrix) => format!("softdiff.Custom(matrix of {}x{})", matrix.rows(), matrix.cols()),
            CorruptionKind::Function(_) => "softdiff.Custom(function)".to_owned(),
        }
    }
}

impl Default for CorruptionKind {
    /// The paper's blur.
    fn default() -> Self {
        CorruptionKind::Known(CorruptionSection::default())
    }
}

impl CorruptionKind {
    /// The corruption for images of `shape`.
    pub fn build(&self, py: Python<'_>, shape: Shape) -> PyResult<Box<dyn corruption::Corruption>> {
        match self {
            CorruptionKind::Known(section) => section.build(shape).map_err(raised),
            CorruptionKind::Kernel { kernel, boundary } => {
                Ok(Box::new(Custom::from_kernel(shape, kernel.clone(), *boundary).map_err(raised)?))
            }
            CorruptionKind::Matrix(matrix) => Ok(Box::new(Custom::from_matrix(shape, matrix.clone()).map_err(raised)?)),
            CorruptionKind::Function(function) => {
                let matrix = matrix_of_function(py, function, shape)?;
                Ok(Box::new(Custom::from_matrix(shape, matrix).map_err(raised)?))
            }
        }
    }
}

/// The corruption that an argument means: a name, or a [`Corruption`].
pub fn kind_of(object: &Bound<'_, PyAny>) -> PyResult<CorruptionKind> {
    if let Ok(name) = object.extract::<String>() {
        return Ok(CorruptionKind::Known(CorruptionSection::One(CorruptionSpec::named(&name).map_err(raised)?)));
    }
    match object.cast::<Corruption>() {
        Ok(corruption) => Ok(corruption.get().0.clone()),
        Err(_) => {
            let found = object.get_type().name()?;
            let message = format!("corruption is {found}; give a name such as \"blur\", or softdiff.Blur(18)");
            Err(PyTypeError::new_err(message))
        }
    }
}

/// Corrupts images: C(level) of each.
///
/// Args:
///     images: uint8, or floats from 0 to 1: [n, height, width, channels], [height, width, channels], [n, height, width] or
///         [height, width].
///     corruption: a name such as "blur", or a corruption such as softdiff.Blur(18).
///     level: how much, in the corruption's own units; by default the strongest.
///
/// Returns:
///     An array of the same shape and type, without noise.
#[pyfunction]
#[pyo3(signature = (images, corruption, level=None))]
pub fn corrupt<'py>(
    py: Python<'py>,
    images: &Bound<'py, PyAny>,
    corruption: &Bound<'py, PyAny>,
    level: Option<f64>,
) -> PyResult<Bound<'py, PyAny>> {
    let images = Images::of(images, "images")?;
    let corruption = kind_of(corruption)?.build(py, images.shape)?;
    let corrupted = py.detach(|| {
        let map = corruption.at(level.unwrap_or(corruption.levels().full))?;
        map.apply_batch(images.shape, &images.values())
    });
    images.like(py, corrupted.map_err(raised)?)
}

fn matrix_of(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Matrix> {
    let (height, width, values) = rows(object, what)?;
    Matrix::from_vec(height, width, values).map_err(raised)
}

/// The matrix of a linear function of images, column by column, and whether it is linear.
fn matrix_of_function(py: Python<'_>, function: &Py<PyAny>, shape: Shape) -> PyResult<Matrix> {
    let (size, dimensions) = (shape.len(), [shape.height, shape.width, shape.channels]);
    if size > LARGEST_MATRIX {
        let problem = format!("a function of images of {shape} would be a matrix of {size}x{size}");
        return Err(with_hint(&problem, Some("give a kernel, or smaller images")));
    }
    let answer = |image: Vec<f64>| -> PyResult<Vec<f64>> {
        let answer = function.call1(py, (array(py, image, &dimensions)?,))?;
        let numpy = py.import("numpy")?.call_method1("asarray", (answer, "float64"))?;
        let found: Vec<usize> = numpy.getattr("shape")?.extract()?;
        if found != dimensions {
            let message = format!("the function makes an array of shape {found:?} of an image of {dimensions:?}");
            return Err(PyValueError::new_err(message));
        }
        numpy.call_method0("ravel")?.call_method0("tolist")?.extract()
    };
    let mut matrix = Matrix::zeros(size, size);
    for column in 0..size {
        let mut unit = vec![0.0; size];
        unit[column] = 1.0;
        for (row, value) in answer(unit)?.into_iter().enumerate() {
            matrix.row_mut(row)[column] = value;
        }
    }
    // One image with every value tells a function that only looks linear on the units.
    let image: Vec<f64> = (0..size).map(|i| ((i * 37 % 101) as f64 - 50.0) / 25.0).collect();
    let (expected, found) = (matrix.times_vector(&image), answer(image)?);
    let scale = expected.iter().fold(1.0, |most: f64, value| most.max(value.abs()));
    match expected.iter().zip(&found).all(|(a, b)| (a - b).abs() <= 1e-6 * scale) {
        true => Ok(matrix),
        false => Err(with_hint("the function is not linear", Some("give one with f(a x + b y) = a f(x) + b f(y)"))),
    }
}

fn parameter_value(kind: ParameterKind, key: &str, value: &Bound<'_, PyAny>) -> PyResult<ParameterValue> {
    let wrong = |expected: &str| -> PyErr {
        let shown = value.repr().map_or_else(|_| "this".to_owned(), |text| text.to_string());
        PyValueError::new_err(format!("{key} is {shown}; give {expected}"))
    };
    match kind {
        ParameterKind::Pixels => match value.extract::<f64>() {
            Ok(pixels) if pixels > 0.0 && pixels.is_finite() => Ok(ParameterValue::Pixels(Some(pixels))),
            _ => Err(wrong("a number of pixels above 0")),
        },
        ParameterKind::Fraction => match value.extract::<f64>() {
            Ok(fraction) if (0.0..1.0).contains(&fraction) => Ok(ParameterValue::Fraction(fraction)),
            _ => Err(wrong("a number from 0 to below 1")),
        },
        ParameterKind::Word(words) => {
            let given: String = value.extract().map_err(|_| wrong(&words.join(", ")))?;
            let word = words.iter().find(|word| **word == given);
            word.map(|word| ParameterValue::Word(word)).ok_or_else(|| wrong(&format!("one of {}", words.join(", "))))
        }
        ParameterKind::Seed { .. } => {
            value.extract().map(ParameterValue::Seed).map_err(|_| wrong("a whole number from 0 on"))
        }
        ParameterKind::File => {
            let path: std::path::PathBuf = value.extract().map_err(|_| wrong("the name of a file"))?;
            Ok(ParameterValue::File(path.to_string_lossy().into_owned()))
        }
    }
}
