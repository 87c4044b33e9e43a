//! Decolourisation: every pixel's channels move towards its grey.

use super::registry::{CorruptionEntry, CorruptionParameter, ParameterKind};
use super::{Corruption, CorruptionError, Levels, LinearMap, Shape};
use crate::linalg::Matrix;

pub(super) const ENTRY: CorruptionEntry = CorruptionEntry {
    name: Decolourisation::NAME,
    about: "colours fading to grey",
    parameters: &[CorruptionParameter {
        key: "grey",
        kind: ParameterKind::Word(&["mean", "luma"]),
        about: "mean of the channels, or luma (ITU-R BT.601)",
    }],
    erases: false,
    corrupts: true,
    build: |spec, shape| {
        let grey = if spec.word("grey") == "luma" { Grey::Luma } else { Grey::Mean };
        Ok(Box::new(Decolourisation::new(shape, grey)?))
    },
};

/// What grey means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grey {
    /// The mean of the channels: an orthogonal projection, norm one.
    #[default]
    Mean,
    /// Luma of three channels (ITU-R BT.601). Not orthogonal: norm up to 1.158.
    Luma,
}

/// Rec. ITU-R BT.601: weights of red, green and blue.
const LUMA: [f64; 3] = [0.299, 0.587, 0.114];

/// `M = (1 - level) I + level 1 w^T` on the channels of each pixel, w the weights of grey.
#[derive(Debug, Clone)]
pub struct Decolourisation {
    shape: Shape,
    weights: Vec<f64>,
    grey: Grey,
}

impl Decolourisation {
    const NAME: &'static str = "decolourisation";

    /// Towards the given grey.
    pub fn new(shape: Shape, grey: Grey) -> Result<Self, CorruptionError> {
        let weights = match grey {
            Grey::Mean => vec![1.0 / shape.channels as f64; shape.channels],
            Grey::Luma if shape.channels == 3 => LUMA.to_vec(),
            Grey::Luma => {
                return Err(CorruptionError::Parameter {
                    name: Self::NAME,
                    parameter: "the number of channels",
                    value: shape.channels as f64,
                    remedy: "luma needs 3 (red, green, blue); use the mean instead",
                });
            }
        };
        Ok(Decolourisation { shape, weights, grey })
    }

    fn mix(&self, keep: f64, grey: f64) -> LinearMap {
        let n = self.shape.channels;
        let entry = |i, j: usize| grey * self.weights[j] + if i == j { keep } else { 0.0 };
        LinearMap::ChannelMix(Matrix::from_fn(n, n, entry))
    }
}

impl Corruption for Decolourisation {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn describe(&self) -> String {
        format!("decolourisation(grey={:?})", self.grey)
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn levels(&self) -> Levels {
        Levels::UNIT
    }

    fn at(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        let level = self.levels().check(self.name(), level)?;
        Ok(self.mix(1.0 - level, level))
    }

    fn derivative(&self, level: f64) -> Result<LinearMap, CorruptionError> {
        self.levels().check(self.name(), level)?;
        Ok(self.mix(-1.0, 1.0))
    }

    /// |1| |w|: the norm of full grey, and at least one.
    fn norm_bound(&self) -> f64 {
        let squares: f64 = self.weights.iter().map(|w| w * w).sum();
        (squares * self.shape.channels as f64).sqrt().max(1.0)
    }
}
