//! Data sets: from files of many kinds to images of one size in memory.
//!
//! [`Source::open`] finds out what a path holds and lists its pictures; [`Source::load`] decodes, crops and resizes them on
//! all cores into a [`Dataset`]; [`Batches`] says, as a pure function of seed and step, which pictures a training step sees.
//!
//! Promise: no file can run code, panic, or make the reader hold more than the limits below and those of [`crate::image`].
//!
//! | limit | value | where |
//! |---|---|---|
//! | a file (archive, array), which is mapped and not read | 1 TiB | [`MAX_MAPPED_BYTES`] |
//! | what is unpacked in memory (gzip, a packed array, Parquet pages), and files of other kinds | 8 GiB | [`MAX_FILE_BYTES`] |
//! | one picture file or archive entry | 64 MiB | [`MAX_PICTURE_BYTES`] |
//! | bytes out of a compressed byte | 200 | [`crate::archive::MAX_RATIO`] |
//! | pictures, entries | 2^22 | [`MAX_PICTURES`] |
//! | a data set loaded into memory | 32 GiB | [`MAX_DATASET_BYTES`] |
//! | pictures skipped as bad | 1 % | unless told otherwise ([`BadLimit`]) |
//!
//! Below these limits, what does not fit into the memory that there is is refused with the number ([`softdiff_engine::memory`]).

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
pub mod named;
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
pub use load::{BadLimit, LoadOptions, OnBad, Skipped};
pub use npz::{NpzWriter, write as write_npz};
pub use pictures::{Exif, Pictures};
pub use softdiff_engine::shuffle::{Permutation, Shuffled};
pub use source::{Source, Split};
pub use survey::Survey;
pub use transform::{Crop, Transform};

/// The longest archive or array.
pub const MAX_MAPPED_BYTES: u64 = 1 << 40;
/// The most that is unpacked from a file, and the longest file of other kinds.
pub const MAX_FILE_BYTES: u64 = 8 << 30;
/// The longest image file or archive entry.
pub const MAX_PICTURE_BYTES: u64 = 64 << 20;
/// The most images of a data set, and entries of an archive.
pub const MAX_PICTURES: u64 = 1 << 22;
/// The most memory of a loaded data set.
pub const MAX_DATASET_BYTES: u64 = 32 << 30;
