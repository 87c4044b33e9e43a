//! Training: one step as one graph, one loop over it.

mod blur_path;
mod emitted_path;
mod error;
mod from;
mod images;
mod prepare;
mod score;
mod setup;
mod step;
mod trainer;

pub use blur_path::BlurPath;
pub use emitted_path::{EmittedPath, HostPath, PathTable, TABLE_LIMIT, TABLE_ROWS, TableError};
pub use error::TrainError;
pub use prepare::{PrepareError, Prepared};
pub use score::{ScoreError, Scorer, SelectionCost};
pub use setup::{Evaluation, Preview, Setup, Unwatched, Watcher};
pub use step::{Noise, Setting, SoftStep, StepInputs, StepLoss};
pub use trainer::{Finished, train};
