//! The distance of one set of images after another to the same reference.

use super::features::Features;
use super::{FidReference, ImageSet, Measured, MetricError, TaskProgress, sliced_wasserstein};
use crate::inception::Extractor;

/// The distance to a fixed reference: FID, or without the FID network the sliced Wasserstein distance of the pixels.
pub enum Distance {
    /// FID.
    Fid {
        /// The network.
        extractor: Box<Extractor>,
        /// The reference's features.
        reference: Box<FidReference>,
    },
    /// Sliced Wasserstein distance.
    SlicedWasserstein {
        /// The pixels that are compared with.
        reference: Vec<u8>,
        /// Random directions.
        directions: usize,
    },
}

impl Distance {
    /// FID against all images of a set; the statistics of its features come from the cache, or are stored there. Other ranks of the
    /// extractor are released after this, and after every [`Distance::of`].
    pub fn fid(
        mut extractor: Extractor,
        reference: &ImageSet,
        progress: TaskProgress<'_>,
    ) -> Result<Distance, MetricError> {
        let (features, _) = Features::cached(&mut extractor, reference, 0, progress)?;
        extractor.release()?;
        let reference = Box::new(FidReference::new(&features.statistics)?);
        Ok(Distance::Fid { extractor: Box::new(extractor), reference })
    }

    /// The distance of 8-bit images (NHWC, of this height, width and channels), with its error where that is known.
    pub fn of(&mut self, images: &[u8], size: [usize; 3]) -> Result<Measured, MetricError> {
        match self {
            Distance::Fid { extractor, reference } => {
                let features = Features::of(extractor, images, size, 0, &|_, _| {})?;
                extractor.release()?;
                Ok(Measured::new(reference.distance(&features.statistics)?))
            }
            Distance::SlicedWasserstein { reference, directions } => {
                let length = size.iter().product();
                let (value, error) = sliced_wasserstein(images, reference, length, *directions, 0)?;
                Ok(Measured::new(value).error(error))
            }
        }
    }
}
