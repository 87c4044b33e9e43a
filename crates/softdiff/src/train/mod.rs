//! Training: one step as one graph, and one loop over it.
//!
//! [`Training`] is the front door. Behind it, a recipe becomes a [`PreparedRun`] (images, schedule, prior, network), this
//! a [`RunSpec`] (every number that decides the result), this a [`SoftStep`] (the graph of one step) and a [`Stepper`]
//! (that graph on a device with its images), which [`train`] runs to the last step.

mod borrowed;
mod error;
mod estimate;
mod from;
mod live_sampler;
mod memory;
mod path_table;
mod prepare;
mod previewer;
mod recorder;
mod saver;
mod score;
mod scored;
mod session_note;
mod spec;
mod step;
mod stepper;
mod together;
mod trained;
mod trainer;
mod training;
mod watcher;

pub use error::TrainError;
pub use estimate::{StepTime, guidance_without_guide, too_few_images};
pub(crate) use from::{Cooldown, Unlike};
pub use memory::TrainingMemory;
pub use path_table::{PathTable, TABLE_LIMIT, TABLE_ROWS, TableError};
pub use prepare::{CustomParts, PrepareError, PrepareProgress, PreparedRun};
pub(crate) use prepare::{known_by, of_run};
pub use score::{HeldOutLoss, ScoreError, Scorer, SelectionCost};
pub use spec::{Preview, RunSpec, RunStore, StartFrom};
pub use step::{SoftStep, StepInputs, StepLoss, StepNoise, StepSpec};
pub use stepper::{ImageFeed, Stepper};
pub use trained::Trained;
pub use trainer::{Finished, train};
pub use training::{Training, train_recipe};
pub use watcher::{CheckpointScore, Unwatched, Watcher};
