//! Several processes that work together, as `mpirun`, `srun` or `torchrun` starts them: who started them, what carries their messages, and
//! how all learn that one of them is lost.

mod connect;
mod group;
mod launcher;
mod meeting;
mod watch;

pub use group::{RankError, RankGroup, SHARES};
pub use launcher::{Launch, Launcher, STARTED_BY};
