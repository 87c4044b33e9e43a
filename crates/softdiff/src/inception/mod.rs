//! The network behind FID: Inception-v3 of 2015-12-05, from images to 2048 features (Szegedy et al. 2016; Heusel et al. 2017).
//!
//! It differs from the usual Inception-v3 in two places: average pools do not count the padding, and the last block's
//! pool takes the maximum. [`Inception`] holds its weights, [`Extractor`] runs it on a device, and [`Preset`] says how
//! images come to its 299 x 299 input, which must be the same for all images that are compared.

mod architecture;
mod error;
mod extractor;
mod graph;
mod names;
mod preset;
mod random;
mod weights;

pub use error::InceptionError;
pub use extractor::Extractor;
pub use preset::Preset;
pub use random::random_weights;
pub use weights::Inception;

/// Length of a feature vector.
pub const FEATURES: usize = 2048;
/// What to do where the network is not there.
pub(crate) const HOW_TO_GET: &str =
    "softdiff data fetch fid-inception (96 MB), or name a file of your own in SOFTDIFF_INCEPTION";
/// Side of the network's input.
pub const SIDE: usize = 299;
