//! A run: a folder with all that a training run reads and writes.
//!
//! `config.toml`, `events.jsonl`, `schedule.json`, `prior.safetensors`, `checkpoints/`, `samples/`, `env.json` and
//! `report.html`. One process writes it at a time ([`RunLock`]). Running the same command again continues the run, and
//! the result is that of one uninterrupted run: the weights bit for bit, and the event stream byte for byte.

mod error;
mod event;
mod event_log;
mod event_reader;
mod folder;
mod follow;
pub mod fs;
mod guard;
mod lock;
mod meter;
mod new_folder;
mod presence;
mod scores;
mod session;
mod signal;

pub use error::{Result, RunError};
pub use event::{Event, EventKind};
pub use event_log::{EventLog, Repaired};
pub use event_reader::Events;
pub use folder::RunFolder;
pub use follow::{Follower, News};
pub use guard::{Diverged, Guard, MOST_SKIPS, Quantity, Spike, Verdict};
pub use lock::{Holder, RunLock};
pub use meter::Meter;
pub use new_folder::NewFolder;
pub use presence::{Memory, Presence};
pub use scores::Score;
pub use session::{DeviceMemory, RunSession, build};
pub use signal::{StopHold, StopRequest, StopSignal, Stopped};
