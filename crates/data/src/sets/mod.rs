//! Data sets: from files of many kinds to images of one size in memory.
//!
//! [`Source::open`] finds out what a path holds and lists its pictures; [`Source::load`] decodes, crops and resizes them on
//! all cores into a [`Dataset`]; [`Batches`] says, as a pure function of seed and step, which pictures a training step sees.
//!
//! Promise: no file can run code, panic, or make the reader hold more than the limits below and those of [`crate::image`].
//!
//! | limit | value | where |
//! |---|---|---|
//! | a file read whole (archive, array, Parquet) | 8 GiB | [`MAX_FILE_BYTES`] |
//! | one picture file or archive entry | 64 MiB | [`MAX_PICTURE_BYTES`] |
//! | bytes out of a compressed byte | 200 | [`crate::archive::MAX_RATIO`] |
//! | pictures, entries | 2^22 | [`MAX_PICTURES`] |
//! | a loaded data set | 32 GiB | [`MAX_DATASET_BYTES`] |
//! | pictures skipped as bad | 1 % | [`MAX_SKIPPED_PERCENT`] |

mod archive_source;
mod batch;
mod cifar;
mod crops;
mod dataset;
mod embedded;
mod error;
mod folder;
mod idx;
mod layout;
mod load;
pub mod npy;
pub mod npz;
mod parquet;
mod pictures;
mod source;
mod survey;
mod transform;

pub use batch::{Batch, Batches};
pub use crops::{CropOptions, CropPlan, PlannedPhotograph, WrittenCrops};
pub use dataset::{Dataset, Statistics};
pub use error::{DataError, FileError};
pub use load::{LoadOptions, OnBad, Skipped};
pub use npz::write as write_npz;
pub use pictures::{Exif, Pictures};
pub use softdiff_engine::shuffle::{Permutation, Shuffled};
pub use source::{Source, Split};
pub use survey::Survey;
pub use transform::{Crop, Transform};

/// The longest archive, array or Parquet file that is read.
pub const MAX_FILE_BYTES: u64 = 8 << 30;
/// The longest image file or archive entry.
pub const MAX_PICTURE_BYTES: u64 = 64 << 20;
/// The most images of a data set, and entries of an archive.
pub const MAX_PICTURES: u64 = 1 << 22;
/// The most memory of a loaded data set.
pub const MAX_DATASET_BYTES: u64 = 32 << 30;
/// The most images that may be skipped as bad.
pub const MAX_SKIPPED_PERCENT: usize = 1;
