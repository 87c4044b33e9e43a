//! What a denoiser says of images with white noise, at the time of the path that has as much.

use crate::path::Path;
use crate::sampler::{Denoiser, Result, SamplerError};

/// Halvings of an interval of times.
const HALVINGS: usize = 40;

/// `E[x_0 | x]` of images x = x_0 + sigma n, by a denoiser of a path on which C_t is a multiple of the identity from 0 to `latest`.
/// More noise than there is at `latest` is taken for that there.
pub(super) fn denoised(
    path: &Path,
    denoiser: &mut dyn Denoiser,
    x: &[f64],
    sigma: f64,
    latest: f64,
) -> Result<Vec<f64>> {
    let alpha = |t: f64| -> Result<f64> {
        let scale = path.at(t)?.scale();
        scale.ok_or_else(|| SamplerError::Denoiser("the path is not of noise alone".into()))
    };
    let (mut low, mut high) = (0.0, latest);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if path.sigma(middle) < sigma * alpha(middle)? { low = middle } else { high = middle }
    }
    let (t, alpha) = (high, alpha(high)?);
    let mut xt: Vec<f64> = x.iter().map(|x| alpha * x).collect();
    if let Some(offset) = path.offset(t)? {
        xt.iter_mut().zip(offset.iter().cycle()).for_each(|(x, o)| *x += o);
    }
    denoiser.x0_hat(&xt, t)
}
