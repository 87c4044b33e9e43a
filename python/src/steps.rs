//! The reverse process as an iterator.

use crate::error::raised;
use crate::images::array;
use numpy::PyArrayDyn;
use pyo3::prelude::*;
use softdiff::model;
use std::sync::{Mutex, PoisonError};

/// An iterator over (t, xt, x0_hat); `Model.denoise_steps` makes it.
#[pyclass(frozen, module = "softdiff")]
pub struct DenoiseSteps {
    steps: Mutex<model::DenoiseSteps>,
    dimensions: Vec<usize>,
}

impl DenoiseSteps {
    pub fn new(steps: model::DenoiseSteps, dimensions: Vec<usize>) -> DenoiseSteps {
        DenoiseSteps { steps: Mutex::new(steps), dimensions }
    }
}

/// t, x_t and x0_hat.
type StepArrays<'py> = (f64, Bound<'py, PyArrayDyn<f64>>, Bound<'py, PyArrayDyn<f64>>);

#[pymethods]
impl DenoiseSteps {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<StepArrays<'py>>> {
        py.check_signals()?;
        let Some(step) = py.detach(|| self.steps.lock().unwrap_or_else(PoisonError::into_inner).next()) else {
            return Ok(None);
        };
        let model::DenoiseStep { t, xt, x0_hat } = step.map_err(raised)?;
        Ok(Some((t, array(py, xt, &self.dimensions)?, array(py, x0_hat, &self.dimensions)?)))
    }
}
