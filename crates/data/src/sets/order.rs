//! The order of pictures: see [`softdiff_engine::shuffle`], which a GPU computes too.

pub use softdiff_engine::shuffle::{Permutation, Shuffled};
