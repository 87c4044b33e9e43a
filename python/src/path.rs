//! Diffusion paths.

use crate::arguments::word;
use crate::corruption::kind_of;
use crate::error::raised;
use crate::images::{Images, array, noisy_values};
use crate::schedule::Schedule;
use pyo3::prelude::*;
use softdiff::corruption::Shape;
use softdiff::curve::Interpolation;
use softdiff::engine::rng::RandomStream;
use softdiff::noise::Alpha;
use softdiff::path;
use softdiff::schedule::usual_candidates;
use std::sync::Arc;

/// Knots where none are given.
const KNOTS: usize = 32;

/// How an image is lost over time: x_t = C_t x_0 + sigma_t noise, with t = 0 clean and t = 1 corrupted.
///
/// Args:
///     shape: of the images, (height, width, channels).
///     corruption: a name such as "blur", or a corruption such as softdiff.Blur(18).
///     knots: its levels at equal times, rising; or a Schedule. By default 32 levels, evenly spaced in their logarithm for
///         blurs.
///
/// The path is the paper's: noise grows up to t = 0.18, then the corruption.
#[pyclass(frozen, module = "softdiff")]
pub struct Path(pub Arc<path::Path>);

#[pymethods]
impl Path {
    #[new]
    #[pyo3(signature = (shape, corruption, knots=None))]
    fn new(
        py: Python<'_>,
        shape: (usize, usize, usize),
        corruption: &Bound<'_, PyAny>,
        knots: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Path> {
        let corruption = kind_of(corruption)?.build(py, Shape::new(shape.0, shape.1, shape.2))?;
        let knots = match knots {
            None => usual_candidates(&*corruption, KNOTS).map_err(raised)?,
            Some(knots) => match knots.cast::<Schedule>() {
                Ok(schedule) => schedule.get().0.knots.clone(),
                Err(_) => knots.try_iter()?.map(|knot| knot?.extract::<f64>()).collect::<PyResult<_>>()?,
            },
        };
        Path::of(path::Path::two_stage(corruption, knots, Interpolation::Linear))
    }

    /// Noise alone, growing from `smallest` to `largest`: the variance-exploding diffusion.
    #[staticmethod]
    #[pyo3(signature = (shape, smallest=0.01, largest=50.0))]
    fn variance_exploding(shape: (usize, usize, usize), smallest: f64, largest: f64) -> PyResult<Path> {
        Path::of(path::Path::variance_exploding(Shape::new(shape.0, shape.1, shape.2), smallest, largest))
    }

    /// Images that fade while noise grows: the variance-preserving diffusion, on images in [-1, 1] as in score_sde. `alpha`
    /// is "linear" or "cosine".
    #[staticmethod]
    #[pyo3(signature = (shape, alpha="linear"))]
    fn variance_preserving(shape: (usize, usize, usize), alpha: &str) -> PyResult<Path> {
        let alpha = word("alpha", alpha, &[("linear", Alpha::LINEAR), ("cosine", Alpha::COSINE)])?;
        let path = path::Path::variance_preserving(Shape::new(shape.0, shape.1, shape.2), alpha);
        Path::of(path.map(path::Path::centred))
    }

    /// Height, width and channels of the images.
    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        let Shape { height, width, channels } = self.0.shape();
        (height, width, channels)
    }

    /// The standard deviation of the noise at time t.
    fn sigma(&self, t: f64) -> PyResult<f64> {
        Ok(self.0.at(t).map_err(raised)?.sigma)
    }

    /// The level of the corruption at time t; of several, that of the first.
    fn level(&self, t: f64) -> PyResult<f64> {
        self.0.level(t).map_err(raised)
    }

    /// C_t of each image, without noise; an array like the one given.
    fn corrupt<'py>(&self, py: Python<'py>, images: &Bound<'py, PyAny>, t: f64) -> PyResult<Bound<'py, PyAny>> {
        let images = self.images(images)?;
        let values = images.values();
        let corrupted = py.detach(|| self.0.diffuse(&values, t, &vec![0.0; values.len()]));
        images.like(py, corrupted.map_err(raised)?)
    }

    /// x_t of each image, floats of the same shape. The noise is `noise`, standard normal values of the same shape, or drawn
    /// with `seed`.
    #[pyo3(signature = (images, t, seed=0, noise=None))]
    fn diffuse<'py>(
        &self,
        py: Python<'py>,
        images: &Bound<'py, PyAny>,
        t: f64,
        seed: u64,
        noise: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let images = self.images(images)?;
        let noise = match noise {
            Some(noise) => noisy_values(noise, "noise", self.0.shape())?.0,
            None => RandomStream::new(seed, "noise of an array").normals(images.dimensions.iter().product()),
        };
        let xt = py.detach(|| self.0.diffuse(&images.values(), t, &noise)).map_err(raised)?;
        Ok(array(py, xt, &images.dimensions)?.into_any())
    }

    fn __repr__(&self) -> String {
        let stages: Vec<String> = self.0.stages().map(|(corruption, _)| corruption.name().to_owned()).collect();
        format!("<softdiff.Path of {} by {}>", self.0.shape(), stages.join(", "))
    }
}

impl Path {
    fn of(path: Result<path::Path, path::PathError>) -> PyResult<Path> {
        Ok(Path(Arc::new(path.map_err(raised)?)))
    }

    fn images(&self, images: &Bound<'_, PyAny>) -> PyResult<Images> {
        let images = Images::of(images, "images")?;
        if images.shape != self.0.shape() {
            let message = format!("images are of {}, the path is for {}", images.shape, self.0.shape());
            return Err(pyo3::exceptions::PyValueError::new_err(message));
        }
        Ok(images)
    }
}
