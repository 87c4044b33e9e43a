//! The sections of a recipe, one file each: the type, how it is read, how it is written.

mod checkpoint;
mod corruption;
mod data;
mod network;
mod objective;
mod path;
mod preview;
mod prior;
mod sample;
mod schedule;
mod train;

pub use checkpoint::CheckpointSection;
pub use corruption::CorruptionSection;
pub use data::DataSection;
pub use network::{NetworkSection, Preset};
pub use path::PathSection;
pub use preview::PreviewSection;
pub use prior::PriorSection;
pub use sample::{Grid, SampleSection, Weights};
pub use schedule::{KnotMethod, ScheduleSection};
pub use train::{TrainPrecision, TrainSection};

pub(super) use objective::{read as read_objective, write as write_objective};

/// Counts without a limit of their own: TOML's integers end here.
const UNLIMITED: u64 = i64::MAX as u64;
