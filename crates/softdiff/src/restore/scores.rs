//! How near a restored image comes to the true one.

use super::Restored;
use crate::image::from_unit;
use crate::metrics::{MetricError, psnr, ssim};
use serde::Serialize;

/// Nearness of one image to the true one.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PairScore {
    /// In dB; none for equal images.
    pub psnr: Option<f64>,
    /// None for images too small for it.
    pub ssim: Option<f64>,
}

/// Of what was seen, of the mean, and of each sample.
#[derive(Clone, Debug, Serialize)]
pub struct RestorationScores {
    /// Before.
    pub seen: PairScore,
    /// The best guess.
    pub mean: PairScore,
    /// Each sample.
    pub samples: Vec<PairScore>,
}

impl Restored {
    /// Compares with the true image.
    pub fn scores(&self, truth: &[f64]) -> Result<RestorationScores, MetricError> {
        let observation = &self.observed.observation;
        let (shape, truth) = (observation.shape(), from_unit(truth));
        let score = |image: &[f64]| -> Result<PairScore, MetricError> {
            let image = from_unit(image);
            let near = psnr(&image, &truth)?;
            let alike = ssim(&image, &truth, shape.height, shape.width, shape.channels);
            Ok(PairScore { psnr: near.is_finite().then_some(near), ssim: alike.ok() })
        };
        let samples = self.samples.chunks_exact(shape.len()).map(score).collect::<Result<_, _>>()?;
        Ok(RestorationScores { seen: score(observation.values())?, mean: score(&self.mean)?, samples })
    }
}
