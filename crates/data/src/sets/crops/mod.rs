//! Crops of photographs as a data set: many small squares of pictures of any size.
//!
//! Two passes over the photographs. The first ([`Source::plan_crops`]) decodes each one to learn its size, its content and how much
//! of it is flat, and decides how many crops it gives and whether it is held out. The second ([`CropPlan::write`]) decodes
//! them again and writes the crops as they are cut. A few decoded photographs are in memory at a time, and no more.
//!
//! A crop is a pure function of the seed, the photograph's content and the crop's number. Photographs are held out by their
//! content alone, so that those of one seed are those of every other.

mod allotment;
mod photograph;
mod plan;
mod write;

pub use plan::{CropPlan, PlannedPhotograph};
pub use write::WrittenCrops;

use super::{BadLimit, Exif, OnBad};
use crate::image::MAX_ALLOCATION;
use softdiff_engine::memory;

/// Photographs decoded at a time, where memory is not short.
const GROUP: usize = 8;

/// Photographs decoded at a time: as many as fit into memory, were they as large as they may be.
fn group() -> usize {
    (memory::available().0 / (4 * MAX_ALLOCATION)).clamp(1, GROUP as u64) as usize
}

/// Which crops to cut.
#[derive(Clone, Copy, Debug)]
pub struct CropOptions {
    /// Width and height of a crop.
    pub side: usize,
    /// Crops in all; none takes [`CropOptions::USUAL`] for each photograph.
    pub count: Option<usize>,
    /// The most crops of one photograph; none takes twice the mean.
    pub cap: Option<usize>,
    /// The share of photographs whose crops are the test part, from 0 to below 1; at least one if above 0.
    pub held_out: f64,
    /// What the places, scales and turns are drawn from.
    pub seed: u64,
    /// 1 for grey, 3 for RGB; none takes RGB if any photograph has colours.
    pub channels: Option<usize>,
    /// Whether photographs are turned upright first.
    pub exif: Exif,
    /// What to do with photographs that cannot be used.
    pub on_bad: OnBad,
    /// How many of them may be left out.
    pub on_bad_limit: BadLimit,
}

impl CropOptions {
    /// Crops of a photograph, where nothing is said.
    pub const USUAL: usize = 1000;
}
