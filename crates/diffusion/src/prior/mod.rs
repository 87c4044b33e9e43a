//! The terminal distribution p_1, from which sampling starts.
//!
//! The paper does not define it ("noise on top of (almost) a single color"). For masking, VE and VP it is noise alone. For
//! blur it is not: besides the mean colour several modes still carry as much signal as noise at the last level, and
//! since the blur stage adds no fresh noise, what is missing there is never repaired. So it is fitted to corrupted data.

mod corrupted;
mod density;
mod file;
mod gap;
mod mixture;
mod modes;

pub use density::PriorDensity;
pub use file::LARGEST_PRIOR;
pub use gap::{GapReport, ModeGap};
pub use mixture::{Component, Mixture};
pub use modes::Modes;

use crate::corruption::{CorruptionError, LinearMap, Shape};
use crate::linalg::LinalgError;
use crate::path::{Path, PathError};
use corrupted::Corrupted;
use rayon::prelude::*;
use softdiff_engine::memory::{self, NotEnoughMemory};
use softdiff_engine::pixels::PixelValue;
use softdiff_engine::rng::RandomStream;
use softdiff_engine::{Hint, HintedMessage};
use std::borrow::Cow;

/// What can go wrong with a prior.
#[derive(Debug, thiserror::Error)]
pub enum PriorError {
    /// Too few images.
    #[error("{images} images cannot fix a {dimensions}-dimensional Gaussian of {components} components")]
    TooFewImages {
        /// Images given.
        images: usize,
        /// Dimensions to fit.
        dimensions: usize,
        /// Components to fit.
        components: usize,
    },
    /// A prior of single points.
    #[error("a prior without noise has no density")]
    NoDensity,
    /// No modes or no components.
    #[error("{what} is 0")]
    Zero {
        /// What is zero.
        what: &'static str,
    },
    /// More modes than pixels.
    #[error("{modes} modes are more than the {pixels} pixels")]
    Modes {
        /// Modes asked for.
        modes: usize,
        /// Pixels there are.
        pixels: usize,
    },
    /// A file that cannot be used.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: HintedMessage,
    },
    /// There is no room for it.
    #[error(transparent)]
    Memory(#[from] NotEnoughMemory),
    /// A bad path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// Bad images.
    #[error(transparent)]
    Corruption(#[from] CorruptionError),
    /// A covariance that cannot be used.
    #[error(transparent)]
    Matrix(#[from] LinalgError),
    /// Samples that cannot be compared.
    #[error(transparent)]
    Transport(#[from] crate::transport::TransportError),
}

impl Hint for PriorError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            PriorError::TooFewImages { .. } => "give more images".into(),
            PriorError::NoDensity => "give the path noise at its end".into(),
            PriorError::Zero { .. } => "give at least 1".into(),
            PriorError::Modes { .. } => "give fewer".into(),
            PriorError::File { problem, .. } => return problem.hint(),
            PriorError::Memory(error) => return error.hint(),
            PriorError::Path(error) => return error.hint(),
            PriorError::Corruption(error) => return error.hint(),
            PriorError::Matrix(error) => return error.hint(),
            PriorError::Transport(error) => return error.hint(),
        })
    }
}

/// The part of p_1 without noise.
#[derive(Debug, Clone, PartialEq)]
pub enum Signal {
    /// Nothing: x_1 is noise. Exact for masking; for VE and VP as good as their last noise level is large.
    None,
    /// A Gaussian mixture in the leading modes of C_1, on top of a fixed image.
    Modes {
        /// The modes.
        modes: Modes,
        /// Distribution of their coefficients, channel by channel within each mode.
        mixture: Mixture,
        /// Mean of what the modes do not span.
        offset: Vec<f64>,
    },
    /// Corrupted training images themselves. **Leaks**: samples start from real images.
    Data {
        /// The corrupted images.
        images: Vec<f64>,
    },
}

/// p_1: a signal plus noise of deviation sigma.
#[derive(Debug, Clone, PartialEq)]
pub struct Prior {
    /// The images.
    pub shape: Shape,
    /// Standard deviation of the noise.
    pub sigma: f64,
    /// The path's centre, about which noise alone lies.
    pub centre: f64,
    /// The rest.
    pub signal: Signal,
}

impl Prior {
    /// N(m, sigma_1^2 I) about the path's centre: exact where C_1 = 0 (masking, cosine VP), the usual choice for VE and VP.
    pub fn noise(path: &Path) -> Result<Self, PriorError> {
        Ok(Prior { shape: path.shape(), sigma: path.at(1.0)?.sigma, centre: path.centre(), signal: Signal::None })
    }

    /// Gaussians fitted to C_1 x_0 over `modes` modes and all channels; one component is a single Gaussian.
    pub fn fitted<V: PixelValue>(
        path: &Path,
        images: &[V],
        modes: usize,
        components: usize,
        seed: u64,
    ) -> Result<Self, PriorError> {
        let shape = path.shape();
        let last = path.at(1.0)?;
        let corrupted = Corrupted::new(shape, &last.map, images)?;
        // Linear maps commute with means and inner products: where the modes are known beforehand, only these are corrupted.
        let (modes, coefficients, mean) = match Modes::of_map(shape, &last.map, modes)? {
            Some(known) => {
                let clean = Corrupted::new(shape, &LinearMap::Identity, images)?;
                let coefficients = known.before(&last.map)?.coefficients_of(&clean)?;
                let mean = last.map.apply(shape, &clean.mean()?)?;
                (known, coefficients, mean)
            }
            None => {
                let modes = Modes::of_images(&corrupted, modes)?;
                let coefficients = modes.coefficients_of(&corrupted)?;
                (modes, coefficients, corrupted.mean()?)
            }
        };
        let mixture = Mixture::fit(&coefficients, components, seed)?;
        let spanned = modes.image(&modes.coefficients(&mean).into_values());
        let mut offset: Vec<f64> = mean.iter().zip(&spanned).map(|(m, s)| m - s).collect();
        add_offset(path, 1.0, &mut offset)?;
        let (sigma, centre) = (last.sigma, path.centre());
        Ok(Prior { shape, sigma, centre, signal: Signal::Modes { modes, mixture, offset } })
    }

    /// Images corrupted up to time `t`, 1 for p_1, to be drawn from. Leaks them; an upper bound for the others.
    pub fn data<V: PixelValue>(path: &Path, images: &[V], t: f64) -> Result<Self, PriorError> {
        let last = path.at(t)?;
        let what = format!("{} corrupted images to begin with", images.len() / path.shape().len().max(1));
        let hint = "give fewer by prior.images, or another prior by prior.kind";
        memory::require((images.len() * size_of::<f64>()) as u64, what, hint)?;
        let mut images = Corrupted::new(path.shape(), &last.map, images)?.all()?;
        add_offset(path, t, &mut images)?;
        if images.is_empty() {
            return Err(PriorError::TooFewImages { images: 0, dimensions: path.shape().len(), components: 1 });
        }
        let (shape, sigma, centre) = (path.shape(), last.sigma, path.centre());
        Ok(Prior { shape, sigma, centre, signal: Signal::Data { images } })
    }

    /// Whether samples start from training images.
    pub fn leaks_training_images(&self) -> bool {
        matches!(self.signal, Signal::Data { .. })
    }

    /// `count` samples; sample i depends on (seed, i) only.
    pub fn sample(&self, count: usize, seed: u64) -> Vec<f64> {
        let mut samples = vec![0.0; count * self.shape.len()];
        samples.par_chunks_exact_mut(self.shape.len()).enumerate().for_each(|(index, sample)| {
            let mut stream = RandomStream::numbered(seed, "prior sample", index);
            match &self.signal {
                Signal::None => sample.fill(self.centre),
                Signal::Modes { modes, mixture, offset } => {
                    let image = modes.image(&mixture.sample(&mut stream));
                    sample.iter_mut().zip(image.iter().zip(offset)).for_each(|(s, (i, o))| *s = i + o);
                }
                Signal::Data { images } => {
                    let choice = stream.below(images.len() / self.shape.len()) * self.shape.len();
                    sample.copy_from_slice(&images[choice..choice + self.shape.len()]);
                }
            }
            sample.iter_mut().for_each(|s| *s += self.sigma * stream.normal());
        });
        samples
    }
}

/// What x_t has besides C_t x_0.
fn add_offset(path: &Path, t: f64, images: &mut [f64]) -> Result<(), PriorError> {
    if let Some(offset) = path.offset(t)? {
        images.iter_mut().zip(offset.iter().cycle()).for_each(|(x, o)| *x += o);
    }
    Ok(())
}
