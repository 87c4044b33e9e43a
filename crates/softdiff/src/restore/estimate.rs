//! How strong a degradation is, estimated from the image alone.

use super::{RestoreError, Result};
use crate::corruption::{CosineTransform, Shape};
use rayon::prelude::*;
use std::f64::consts::PI;

/// A part of an image that an estimate is repeated on has sides of at least so many pixels, and there are at most so many along a side.
const PART: usize = 64;
const PARTS: usize = 4;
/// The shorter side from which an image counts as a photograph.
const PHOTOGRAPH: usize = 128;
/// The standard deviation in pixels of an estimated blur over photographs: their spectra differ, which all parts of one share. Chosen
/// from 0, 0.12, 0.15 and 0.18 on 97 photographs blurred by SciPy; docs/restoration.md has what comes of it on 40 of them.
const SPECTRA_DIFFER: f64 = 0.18;

/// A number that was estimated from an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// From the whole image.
    pub value: f64,
    /// Its standard error, from how much estimates from parts of the image differ. None for an image too small to be parted.
    pub error: Option<f64>,
}

impl Estimate {
    /// Estimates from the whole image, and from its parts to know how sure that is.
    pub fn over_parts(
        shape: Shape,
        values: &[f64],
        estimate: impl Fn(Shape, &[f64]) -> Result<f64> + Sync,
    ) -> Result<Estimate> {
        let Shape { height, width, channels } = shape;
        let (down, across) = ((height / PART).min(PARTS), (width / PART).min(PARTS));
        let of_part = |place: usize| {
            let (i, j) = (place / across, place % across);
            let part = Shape::new(height / down, width / across, channels);
            let rows = (0..part.height).map(|y| ((i * part.height + y) * width + j * part.width) * channels);
            let values: Vec<f64> =
                rows.flat_map(|start| &values[start..start + part.width * channels]).copied().collect();
            // A part of one colour says nothing.
            estimate(part, &values).ok().filter(|found| found.is_finite())
        };
        let of_parts = || (0..down * across).into_par_iter().filter_map(of_part).collect::<Vec<f64>>();
        let (value, found) = rayon::join(|| estimate(shape, values), of_parts);
        let value = value?;
        let count = found.len() as f64;
        let mean = found.iter().sum::<f64>() / count;
        let variance = found.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Ok(Estimate { value, error: (found.len() > 2).then(|| (variance / count).sqrt()) })
    }
}

/// The deviation of white noise in an image (Immerkaer 1996, with the median in place of the mean).
///
/// The mask `[1 -2 1; -2 4 -2; 1 -2 1]` sees no constant, no slope and no edge along an axis; noise of deviation s gives it
/// the deviation 6 s. The median of its absolute values is that of the noise wherever less than half of the image is detail.
pub fn noise_deviation(shape: Shape, values: &[f64]) -> Result<f64> {
    let Shape { height, width, channels } = shape;
    if height < 3 || width < 3 || values.len() != shape.len() {
        let remedy = "give --noise; telling it needs an image of at least 3x3";
        return Err(RestoreError::NoEstimate { what: "the noise", remedy });
    }
    let of_row = |y: usize| {
        let line = |y: usize| &values[y * width * channels..][..width * channels];
        let lines = [line(y - 1), line(y), line(y + 1)];
        let seen = move |i: usize, line: &[f64]| line[i - channels] - 2.0 * line[i] + line[i + channels];
        (channels..(width - 1) * channels).map(move |i| {
            let [above, here, below] = lines.map(|line| seen(i, line));
            (above - 2.0 * here + below).abs()
        })
    };
    let mut sizes: Vec<f64> = (1..height - 1).into_par_iter().flat_map_iter(of_row).collect();
    let middle = sizes.len() / 2;
    let median = *sizes.select_nth_unstable_by(middle, f64::total_cmp).1;
    // Half of a normal distribution lies within 0.6745 deviations.
    Ok(median / 0.674_489_750_196_081_7 / 6.0)
}

/// The deviation in pixels of a Gaussian blur, for a picture with noise of deviation `noise`.
///
/// Sharp images have a power that falls as k^-p with the frequency k; a blur of deviation b multiplies it by `exp(-b^2 w^2)`, w in
/// radians per pixel. So `ln(power k^p) = a - b^2 w^2` wherever the power is above that of the noise, and b^2 is the slope of a
/// straight line. p is 2 for small images (Field 1987) and 2.4 for photographs (Tolhurst et al. 1992).
pub fn blur_deviation(shape: Shape, values: &[f64], noise: f64) -> Result<f64> {
    let none = || RestoreError::NoEstimate { what: "the blur", remedy: "give --level, its deviation in pixels" };
    if shape.height < 8 || shape.width < 8 || values.len() != shape.len() {
        return Err(none());
    }
    let exponent = if shape.height.min(shape.width) < PHOTOGRAPH { 2.0 } else { 2.4 };
    // Rings of equal width in w; each has at least a few frequencies.
    let rings = shape.height.min(shape.width) / 2;
    let mut sums = vec![(0.0, 0.0, 0usize); rings];
    for channel in 0..shape.channels {
        let plane: Vec<f64> = values.iter().skip(channel).step_by(shape.channels).copied().collect();
        let spectrum = CosineTransform::new(shape.height, shape.width).orthonormal(&plane);
        for (index, coefficient) in spectrum.iter().enumerate().skip(1) {
            let (k, l) = (index / shape.width, index % shape.width);
            let w2 = (PI * k as f64 / shape.height as f64).powi(2) + (PI * l as f64 / shape.width as f64).powi(2);
            let ring = (w2.sqrt() / PI * rings as f64) as usize;
            if let Some((power, squares, count)) = sums.get_mut(ring) {
                *power += coefficient * coefficient;
                *squares += w2;
                *count += 1;
            }
        }
    }
    let rings = sums.iter().filter(|(_, _, count)| *count > 0);
    let points: Vec<(f64, f64, f64)> = rings
        .map(|(power, squares, count)| (squares / *count as f64, power / *count as f64 - noise * noise, *count as f64))
        .take_while(|(_, power, _)| *power > 2.0 * noise * noise)
        .map(|(w2, power, count)| (w2, power.ln() + 0.5 * exponent * w2.ln(), count))
        .collect();
    if points.len() < 2 {
        return Err(none());
    }
    Ok((-slope(&points)).max(0.0).sqrt())
}

/// [`blur_deviation`] with its standard error, in which the differences between photographs count too.
pub fn blur_estimate(shape: Shape, values: &[f64], noise: f64) -> Result<Estimate> {
    let found = Estimate::over_parts(shape, values, |shape, values| blur_deviation(shape, values, noise))?;
    let error = found.error.map(|parts| parts.hypot(SPECTRA_DIFFER));
    Ok(Estimate { error, ..found })
}

/// The standard deviation of the white noise that JPEG artefacts are removed as, for a quantization table of luma, row by row.
///
/// What was rounded off is not white, and detail that was rounded to zero is lost altogether; but a denoiser told this much does best. Twelve
/// photographs (none that results are reported on) compressed by Pillow with qualities from 5 to 90, denoised with `models/photos`: the best
/// strength in 1/255 is 1.55 m^0.65 within 20 %, where m is the mean over the nine lowest frequencies.
pub fn jpeg_noise(quantization: &[u16; 64]) -> f64 {
    let lowest = quantization.chunks_exact(8).take(3).flat_map(|row| &row[..3]);
    let mean = lowest.map(|&step| f64::from(step)).sum::<f64>() / 9.0;
    1.55 * mean.max(1.0).powf(0.65) / 255.0
}

/// The slope of the line through points (x, y, weight) by least squares.
fn slope(points: &[(f64, f64, f64)]) -> f64 {
    let total: f64 = points.iter().map(|p| p.2).sum();
    let mean = |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(|p| p.2 * of(p)).sum::<f64>() / total;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let over: f64 = points.iter().map(|p| p.2 * (p.0 - x) * (p.1 - y)).sum();
    over / points.iter().map(|p| p.2 * (p.0 - x).powi(2)).sum::<f64>().max(f64::MIN_POSITIVE)
}
