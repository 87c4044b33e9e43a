//! How far p_1 is from the true q_1.

use super::{Modes, Prior, PriorError};
use crate::linalg::Matrix;
use crate::path::Path;
use crate::transport::{Estimate, sliced};
use softdiff_engine::rng::RandomStream;

/// Directions of the sliced distance.
const DIRECTIONS: usize = 256;

/// Moments of one coefficient.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct ModeGap {
    /// Which mode, by falling gain.
    pub mode: usize,
    /// Which channel.
    pub channel: usize,
    /// Gain of C_1 in this mode.
    pub gain: f64,
    /// Mean in the data and under the prior.
    pub mean: [f64; 2],
    /// Standard deviation in the data and under the prior.
    pub deviation: [f64; 2],
    /// Excess kurtosis in the data and under the prior; a Gaussian has none.
    pub excess_kurtosis: [f64; 2],
}

/// The gap between p_1 and q_1, measured on samples of both.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct GapReport {
    /// Leading modes x channels.
    pub modes: Vec<ModeGap>,
    /// Mean squared length, per value, of what those modes do not span: in the data and under the prior.
    pub outside: [f64; 2],
    /// Sliced W2^2 between prior and data.
    pub sliced: Estimate,
    /// The same between two halves of the data: what the sliced distance would be for a perfect prior.
    pub sliced_floor: Estimate,
    /// Whether samples start from training images.
    pub leaks_training_images: bool,
}

impl Prior {
    /// Compares with held-out clean images: half of them against as many samples, and against the other half.
    pub fn gap(&self, path: &Path, images: &[f64], modes: usize, seed: u64) -> Result<GapReport, PriorError> {
        let count = self.shape.count(images)?;
        if count < 4 {
            return Err(PriorError::TooFewImages { images: count, dimensions: self.shape.len(), components: 1 });
        }
        let eta = RandomStream::new(seed, "noise of the gap report").normals(images.len());
        let truth = path.diffuse(images, 1.0, &eta)?;
        let drawn = self.sample(count, seed);
        let map = path.at(1.0)?.map;
        let modes = Modes::leading(self.shape, &map, &map.apply_batch(self.shape, images)?, modes)?;
        let (true_coefficients, drawn_coefficients) = (modes.coefficients(&truth), modes.coefficients(&drawn));
        let gaps = (0..modes.count() * self.shape.channels).map(|k| {
            let of = |matrix: &Matrix| moments((0..count).map(|i| matrix[(i, k)]));
            let ([m0, d0, k0], [m1, d1, k1]) = (of(&true_coefficients), of(&drawn_coefficients));
            let (mode, channel) = (k / self.shape.channels, k % self.shape.channels);
            ModeGap {
                mode,
                channel,
                gain: modes.gains()[mode],
                mean: [m0, m1],
                deviation: [d0, d1],
                excess_kurtosis: [k0, k1],
            }
        });
        let energy = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>();
        let outside = |all: &[f64], spanned: &Matrix| (energy(all) - energy(spanned.values())) / all.len() as f64;
        let half = count / 2 * self.shape.len();
        let cloud = |values: &[f64]| Matrix::from_vec(count / 2, self.shape.len(), values[..half].to_vec());
        let (first, second) = (cloud(&truth)?, cloud(&truth[truth.len() - half..])?);
        Ok(GapReport {
            modes: gaps.collect(),
            outside: [outside(&truth, &true_coefficients), outside(&drawn, &drawn_coefficients)],
            sliced: sliced(&cloud(&drawn)?, &first, DIRECTIONS, seed)?,
            sliced_floor: sliced(&second, &first, DIRECTIONS, seed)?,
            leaks_training_images: self.leaks_training_images(),
        })
    }
}

/// Mean, standard deviation, excess kurtosis.
fn moments(values: impl Iterator<Item = f64> + Clone) -> [f64; 3] {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let central = |power: i32| values.clone().map(|v| (v - mean).powi(power)).sum::<f64>() / count;
    let variance = central(2);
    let excess = if variance > 0.0 { central(4) / (variance * variance) - 3.0 } else { 0.0 };
    [mean, variance.sqrt(), excess]
}
