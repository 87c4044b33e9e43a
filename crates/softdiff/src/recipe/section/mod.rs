//! The sections of a recipe, one file each: the type, how it is read, how it is written.

mod checkpoint;
mod composed;
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
pub use composed::{CorruptionPart, PartSchedule};
pub use corruption::CorruptionSection;
pub use data::DataSection;
pub use network::{NetworkPreset, NetworkSection, TimeCondition};
pub use path::{PathSection, score_sde_largest};
pub use preview::PreviewSection;
pub use prior::PriorSection;
pub use sample::{Grid, SampleSection, Weights};
pub use schedule::{KnotMethod, MATCHED_KNOTS, ScheduleSection};
pub use train::TrainSection;

pub(super) use objective::{ObjectiveSection, read as read_objective, write as write_objective};

/// Counts without a limit of their own: TOML's integers end here.
const UNLIMITED: u64 = i64::MAX as u64;
