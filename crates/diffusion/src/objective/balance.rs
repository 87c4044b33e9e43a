//! The loss to expect at each time, so that all times can weigh the same.

use crate::corruption::{LinearMap, cosine_basis};
use crate::linalg::{Matrix, symmetric_eigenvalues};
use crate::path::{Path, PathError};
use rayon::prelude::*;

/// Times at which the loss is worked out; linear in between.
const TIMES: usize = 65;
/// As many images as it takes to know their spectrum.
pub const SPECTRUM_IMAGES: usize = 256;
/// The smallest loss that is divided by, as a share of the largest.
const FLOOR: f64 = 1e-3;

/// The soft loss with w = 1/sigma^2 of the best linear denoiser, at equally spaced times from 0 to 1:
/// `1/2 sum P / (P + sigma_t^2)`, with P the variances of `C_t x_0` in the cosine basis and, within a frequency, along the
/// principal axes of the channels. Exact for Gaussian images that are independent there.
///
/// Divided by it ([`super::Weight::Balanced`]) a loss of 1 is that of the Wiener filter at every time. Without, what cannot
/// be known about small noise outweighs the whole blur: on CIFAR-10 the first tenth of the time has half of the loss, the
/// last tenth a hundred-fiftieth of that.
pub fn expected_loss(path: &Path, images: &[f64]) -> Result<Vec<f64>, PathError> {
    let shape = path.shape();
    let count = shape.count(images)? as f64;
    let cosines = LinearMap::Separable { rows: cosine_basis(shape.height), cols: cosine_basis(shape.width) };
    let at = |row: usize| -> Result<f64, PathError> {
        let moment = path.at(row as f64 / (TIMES - 1) as f64)?;
        let spectra = LinearMap::Compose(vec![moment.map, cosines.clone()]).apply_batch(shape, images)?;
        let frequencies = (0..shape.height * shape.width).map(|frequency| {
            let of = |image: &[f64], channel: usize| image[frequency * shape.channels + channel];
            let mean = |value: &dyn Fn(&[f64]) -> f64| spectra.chunks(shape.len()).map(value).sum::<f64>() / count;
            let means: Vec<f64> = (0..shape.channels).map(|c| mean(&|image| of(image, c))).collect();
            let covariance = Matrix::from_fn(shape.channels, shape.channels, |a, b| {
                mean(&|image| (of(image, a) - means[a]) * (of(image, b) - means[b]))
            });
            let variances = symmetric_eigenvalues(&covariance).map_err(crate::corruption::CorruptionError::from)?;
            let shares = variances.iter().map(|v| v.max(0.0) / (v.max(0.0) + moment.sigma * moment.sigma));
            Ok(shares.filter(|share| share.is_finite()).sum::<f64>())
        });
        Ok(0.5 * frequencies.sum::<Result<f64, PathError>>()?)
    };
    let losses: Vec<f64> = (0..TIMES).into_par_iter().map(at).collect::<Result<_, _>>()?;
    let largest = losses.iter().fold(0.0, |a: f64, &b| a.max(b));
    // Of images that are all equal nothing is left to learn.
    let least = if largest > 0.0 { FLOOR * largest } else { 1.0 };
    Ok(losses.into_iter().map(|loss| loss.max(least)).collect())
}
