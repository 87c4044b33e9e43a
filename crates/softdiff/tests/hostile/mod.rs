//! Tables of hostile files, by the layer that must stop them.

pub mod archives;
pub mod checkpoints;
pub mod pickles;
pub mod tensors;
