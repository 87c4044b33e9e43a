//! Arguments that several functions take: seeds, changes of a recipe, devices.

use crate::error::{raised, with_hint};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString, PyTuple};
use softdiff::Device;
use softdiff::recipe::{Recipe, SampleSection};

/// Seeds: an integer, or an iterable of them.
pub struct Seeds(pub Vec<u64>);

impl<'py> FromPyObject<'_, 'py> for Seeds {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Seeds> {
        let one = |seed: &Bound<'_, PyAny>| {
            seed.extract::<u64>().map_err(|_| {
                let shown = seed.repr().map_or_else(|_| "this".to_owned(), |text| text.to_string());
                PyValueError::new_err(format!("{shown} is no seed; give whole numbers from 0 on, such as range(16)"))
            })
        };
        let Ok(items) = object.try_iter() else { return Ok(Seeds(vec![one(&object)?])) };
        let seeds = items.map(|seed| one(&seed?)).collect::<PyResult<Vec<u64>>>()?;
        match seeds.is_empty() {
            true => Err(PyValueError::new_err("there are no seeds; give one for each image, such as range(16)")),
            false => Ok(Seeds(seeds)),
        }
    }
}

/// Changes of a recipe's keys, from a dict such as `{"train.steps": 200}`.
#[derive(Default)]
pub struct Sets(pub Vec<String>);

impl<'py> FromPyObject<'_, 'py> for Sets {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Sets> {
        let Ok(changes) = object.cast::<PyDict>() else {
            return Err(PyTypeError::new_err("set is no dict; give one such as {\"train.steps\": 200}"));
        };
        let changes = changes.iter().map(|(key, value)| Ok(format!("{}={}", key.extract::<String>()?, text(&value)?)));
        Ok(Sets(changes.collect::<PyResult<_>>()?))
    }
}

/// A value as a recipe writes it; None removes the key.
fn text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if value.is_none() {
        return Ok(String::new());
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(value.is_true().to_string());
    }
    if let Ok(value) = value.cast::<PyString>() {
        return Ok(value.to_string());
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.map(|item| {
            let item = item?;
            Ok(if item.is_instance_of::<PyString>() { format!("{:?}", text(&item)?) } else { text(&item)? })
        });
        return Ok(format!("[{}]", items.collect::<PyResult<Vec<_>>>()?.join(", ")));
    }
    if let Ok(value) = value.extract::<i64>() {
        return Ok(value.to_string());
    }
    if let Ok(value) = value.extract::<f64>() {
        return Ok(format!("{value:?}"));
    }
    Ok(value.str()?.to_string())
}

/// Opens a device by name.
pub fn device(name: &str) -> PyResult<Device> {
    Device::open(name).map_err(raised)
}

/// A recipe's `[sample]` with changes.
pub fn sampling(
    recipe: &Recipe,
    sampler: Option<String>,
    steps: Option<usize>,
    set: Option<Sets>,
) -> PyResult<SampleSection> {
    let section = recipe.sample_with(&set.unwrap_or_default().0).map_err(raised)?;
    Ok(changed(section, sampler, steps))
}

/// The same for restoring images, `freely` by the recipe's own sampler.
pub fn restoring(
    recipe: &Recipe,
    freely: bool,
    sampler: Option<String>,
    steps: Option<usize>,
    set: Option<Sets>,
) -> PyResult<SampleSection> {
    let section = recipe.restoring_with(freely, &set.unwrap_or_default().0).map_err(raised)?;
    Ok(changed(section, sampler, steps))
}

fn changed(section: SampleSection, sampler: Option<String>, steps: Option<usize>) -> SampleSection {
    SampleSection { sampler: sampler.unwrap_or(section.sampler), steps: steps.unwrap_or(section.steps), ..section }
}

/// One of some words.
pub fn word<T: Copy>(what: &str, given: &str, words: &[(&str, T)]) -> PyResult<T> {
    words.iter().find(|(word, _)| *word == given).map(|(_, value)| *value).ok_or_else(|| {
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        with_hint(&format!("{what} is {given:?}"), Some(&format!("give one of {}", all.join(", "))))
    })
}
