//! Checkpoints: a folder that is complete or absent, whatever happens while it is written.
//!
//! `step-000123456/` holds `params.safetensors`, one `ema-<decay>.safetensors` per moving average, `adam.safetensors`,
//! `state.json` and `manifest.json` with the length and blake3 of each. It is written under another name, made durable
//! and then renamed. A reader believes nothing that the manifest does not confirm, so that the newest checkpoint that
//! verifies is the state to continue from. There is no random state to save: everything drawn is a function of the
//! seed and the step.

mod error;
mod folder;
mod manifest;
mod retention;
mod state;
mod store;
mod tensors;
mod writer;

pub use error::{CheckpointError, Result};
pub use folder::{FoundCheckpoints, SkippedCheckpoint, StoredCheckpoint};
pub use manifest::{FileEntry, Identity, MANIFEST, Manifest, SCHEMA};
pub use retention::{Better, Retention};
pub use state::{TrainingProgress, TrainingState};
pub use store::{Checkpoints, Saved, folder_name};
pub(crate) use tensors::PARAMS;
pub use writer::{CheckpointWriter, Save};
