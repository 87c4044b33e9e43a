//! Training: one step as one graph.

mod blur_path;
mod emitted_path;
mod step;

pub use blur_path::BlurPath;
pub use emitted_path::{EmittedPath, HostPath, PathTable, TABLE_LIMIT, TABLE_ROWS, TableError};
pub use step::{Noise, Setting, SoftStep, StepInputs, StepLoss};
