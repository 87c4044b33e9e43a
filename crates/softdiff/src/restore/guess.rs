//! What happened to a photograph of which nothing is said: JPEG compression, noise, or a blur. docs/restoration.md has how often this is
//! right, and what it gains.

use super::{Estimate, Task, blur_estimate, jpeg_noise, noise_deviation};
use crate::corruption::Shape;

/// A blur is clear where its estimate is more than so many standard errors above zero: those of sharp photographs go up to about four.
const CLEAR: f64 = 4.0;
/// The standard error of a blur where the image is too small to have one.
const ERROR_OF_SMALL: f64 = 0.25;
/// From this noise on, too few frequencies are left to see a blur by, and a blur that is not there costs more than one that is left.
const NOISY: f64 = 16.0 / 255.0;
/// JPEG artefacts that count, as noise: those of Pillow's quality 92. They hide a blur.
const COMPRESSED: f64 = 2.5 / 255.0;
/// Artefacts as strong as this, those of quality 84, leave little of the noise of the image.
const STRONGLY_COMPRESSED: f64 = 4.0 / 255.0;

/// The task for a photograph whose values are given at its own size; `noise` and the quantization table where they are known.
pub(super) fn of_photograph(shape: Shape, values: &[f64], noise: Option<f64>, quantization: Option<[u16; 64]>) -> Task {
    // Where nothing can be estimated, the task will say so.
    let noise = noise.unwrap_or_else(|| noise_deviation(shape, values).unwrap_or(0.0));
    let most = noise.clamp(COMPRESSED, STRONGLY_COMPRESSED);
    if let Some(quantization) = quantization.filter(|table| jpeg_noise(table) >= most) {
        return Task::JpegArtefacts { quantization };
    }
    let is_clear = |blur: Estimate| blur.value > CLEAR * blur.error.unwrap_or(ERROR_OF_SMALL);
    let is_blurred = noise < NOISY && blur_estimate(shape, values, noise).is_ok_and(is_clear);
    if is_blurred { Task::DEBLUR } else { Task::Denoise }
}
