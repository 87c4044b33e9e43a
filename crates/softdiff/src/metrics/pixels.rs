//! Metrics of pixels: no network is needed, and none can be blamed.

use super::MetricError;
use crate::transport::sliced_images;

/// Side and deviation of the window of SSIM, and its two constants (Wang et al. 2004).
const WINDOW: usize = 11;
const DEVIATION: f64 = 1.5;
const C1: f64 = (0.01 * 255.0) * (0.01 * 255.0);
const C2: f64 = (0.03 * 255.0) * (0.03 * 255.0);

/// Sliced Wasserstein distance of two sets of 8-bit pictures with `size` samples each.
///
/// The root of the mean over random unit directions of W2^2, in units of full brightness per sample: a set whose images
/// are all brighter by s lies at distance s. The second number is the standard error over the directions.
pub fn sliced_wasserstein(
    pictures: &[u8],
    reference: &[u8],
    size: usize,
    directions: usize,
    seed: u64,
) -> Result<(f64, f64), MetricError> {
    for set in [pictures, reference] {
        if size == 0 || !set.len().is_multiple_of(size) {
            return Err(MetricError::Rows { values: set.len(), dimensions: size });
        }
    }
    let estimate = sliced_images(pictures, reference, size, directions, seed)?;
    let distance = (estimate.value.max(0.0) / size as f64).sqrt();
    let error = if distance > 0.0 { estimate.error / size as f64 / (2.0 * distance) } else { 0.0 };
    Ok((distance, error))
}

/// Peak signal to noise ratio of two 8-bit images in dB; infinite for equal ones.
pub fn psnr(x: &[u8], y: &[u8]) -> Result<f64, MetricError> {
    if x.len() != y.len() || x.is_empty() {
        return Err(MetricError::Sizes { left: format!("{} samples", x.len()), right: format!("{} samples", y.len()) });
    }
    let squares: f64 = x.iter().zip(y).map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2)).sum();
    Ok(10.0 * (255.0 * 255.0 * x.len() as f64 / squares).log10())
}

/// Structural similarity of two 8-bit images (Wang et al. 2004): Gaussian windows of 11 x 11 that lie wholly inside,
/// the mean over windows and channels.
pub fn ssim(x: &[u8], y: &[u8], height: usize, width: usize, channels: usize) -> Result<f64, MetricError> {
    if x.len() != y.len() || x.len() != height * width * channels || height < WINDOW || width < WINDOW {
        let left = format!("{} samples", x.len());
        return Err(MetricError::Sizes { left, right: format!("{height} x {width} x {channels}, at least 11 x 11") });
    }
    let plane = |set: &[u8], channel: usize| -> Vec<f64> {
        set.iter().skip(channel).step_by(channels).map(|&v| f64::from(v)).collect()
    };
    let mut total = 0.0;
    for channel in 0..channels {
        let (x, y) = (plane(x, channel), plane(y, channel));
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).collect::<Vec<f64>>();
        let mean = |plane: &[f64]| windowed(plane, width);
        let (mx, my) = (mean(&x), mean(&y));
        let (xx, yy, xy) = (mean(&product(&x, &x)), mean(&product(&y, &y)), mean(&product(&x, &y)));
        let values = (0..mx.len()).map(|i| {
            let (a, b) = (mx[i], my[i]);
            let (vx, vy, covariance) = (xx[i] - a * a, yy[i] - b * b, xy[i] - a * b);
            (2.0 * a * b + C1) * (2.0 * covariance + C2) / ((a * a + b * b + C1) * (vx + vy + C2))
        });
        total += values.sum::<f64>() / mx.len() as f64;
    }
    Ok(total / channels as f64)
}

/// Means under the Gaussian window, wherever it fits.
fn windowed(plane: &[f64], width: usize) -> Vec<f64> {
    let weight = |i: usize| (-(i as f64 - (WINDOW / 2) as f64).powi(2) / (2.0 * DEVIATION * DEVIATION)).exp();
    let total: f64 = (0..WINDOW).map(weight).sum();
    let weights: [f64; WINDOW] = std::array::from_fn(|i| weight(i) / total);
    let across: Vec<f64> = plane
        .chunks_exact(width)
        .flat_map(|row| row.windows(WINDOW).map(|window| window.iter().zip(&weights).map(|(v, w)| v * w).sum()))
        .collect();
    let width = width - WINDOW + 1;
    let height = across.len() / width - WINDOW + 1;
    let down = |at: usize| (0..WINDOW).map(|i| weights[i] * across[at + i * width]).sum();
    (0..height * width).map(down).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brighter_set_lies_at_its_brightness() {
        let pictures: Vec<u8> = (0..40 * 12).map(|i| (i * 37 % 151) as u8).collect();
        let brighter: Vec<u8> = pictures.iter().map(|v| v + 51).collect();
        let (distance, error) = sliced_wasserstein(&pictures, &brighter, 12, 4000, 0).unwrap();
        assert!((distance - 0.2).abs() < 4.0 * error, "{distance} +- {error}");
        assert_eq!(sliced_wasserstein(&pictures, &pictures, 12, 10, 0).unwrap().0, 0.0);
        assert!(sliced_wasserstein(&pictures[..7], &pictures, 12, 10, 0).is_err());
    }

    #[test]
    fn psnr_is_that_of_the_mean_square() {
        assert_eq!(psnr(&[0, 0], &[0, 0]).unwrap(), f64::INFINITY);
        assert!((psnr(&[10, 20], &[15, 15]).unwrap() - 10.0 * (65025.0f64 / 25.0).log10()).abs() < 1e-12);
        assert!(psnr(&[1], &[1, 2]).is_err());
    }

    #[test]
    fn ssim_of_constant_pictures_is_its_brightness_term() {
        let flat = |v: u8| vec![v; 16 * 12 * 3];
        let expected = (2.0 * 100.0 * 50.0 + C1) / (100.0 * 100.0 + 50.0 * 50.0 + C1);
        assert!((ssim(&flat(100), &flat(50), 16, 12, 3).unwrap() - expected).abs() < 1e-9);
        let noise: Vec<u8> = (0..16 * 12 * 3).map(|i| (i * 89 % 251) as u8).collect();
        assert!((ssim(&noise, &noise, 16, 12, 3).unwrap() - 1.0).abs() < 1e-9);
        let opposite: Vec<u8> = noise.iter().map(|v| 255 - v).collect();
        assert!(ssim(&noise, &opposite, 16, 12, 3).unwrap() < 0.0);
        assert!(ssim(&noise, &noise, 8, 24, 3).is_err());
    }
}
