//! Joining the other ranks of a run, and leaving them.

use super::watch::RankWatch;
use super::{Launch, Launcher};
use crate::run::{StopRequest, build};
use softdiff_engine::ranks::{Communicator, MpiRank, Ranks, Reduce};
use softdiff_engine::{Hint, cpu};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// Shares of a batch where the recipe says nothing: 1, 2, 4 and 8 ranks then have the same bits.
pub const SHARES: usize = 8;
/// Longer than the watch takes to notice that a rank is lost.
const VERDICT: Duration = Duration::from_secs(12);

/// Why several processes cannot train together.
#[derive(Debug, thiserror::Error)]
pub enum RankError {
    /// Only `torchrun`'s variables are set.
    #[error(
        "{launcher} started {size} processes, but their messages are carried by MPI, which {launcher} does not start"
    )]
    NoTransport {
        /// Who started them.
        launcher: Launcher,
        /// How many.
        size: usize,
    },
    /// Another MPI than the launcher's.
    #[error("{launcher} started {size} processes, of which {library} sees {seen}")]
    OtherLibrary {
        /// Who started them.
        launcher: Launcher,
        /// How many.
        size: usize,
        /// The library that was loaded.
        library: String,
        /// How many that sees.
        seen: usize,
    },
    /// A rank is lost.
    #[error("{0}")]
    Lost(String),
    /// MPI, or the connections between the hosts.
    #[error(transparent)]
    Engine(#[from] softdiff_engine::Error),
}

impl Hint for RankError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            RankError::NoTransport { size, .. } => format!(
                "start it by MPI: mpirun -n {size} softdiff train ...; for one process alone unset RANK and WORLD_SIZE"
            )
            .into(),
            RankError::OtherLibrary { .. } => {
                "name the launcher's library: SOFTDIFF_MPI=/path/libmpi.so; under srun, also try --mpi=pmix or --mpi=pmi2"
                    .into()
            }
            RankError::Lost(_) => "start all ranks again: they continue from the last checkpoint".into(),
            RankError::Engine(error) => return error.hint(),
        })
    }
}

/// This process among the ranks of a run.
pub struct RankGroup {
    communicator: Arc<dyn Communicator>,
    watch: RankWatch,
    /// What training needs of it.
    pub ranks: Ranks,
}

impl RankGroup {
    /// Joins the processes that were started with this one. From then on a lost rank ends the process, with the words and the
    /// exit code of `stop`.
    pub fn join(launch: Launch, reduce: Reduce, stop: &StopRequest) -> Result<RankGroup, RankError> {
        let Launch { launcher, size, .. } = launch;
        if launcher == Launcher::Torchrun {
            return Err(RankError::NoTransport { launcher, size });
        }
        let communicator: Arc<dyn Communicator> = Arc::new(MpiRank::join(launch.family())?);
        if communicator.size() != size {
            let (library, seen) = (communicator.library(), communicator.size());
            return Err(RankError::OtherLibrary { launcher, size, library, seen });
        }
        let ranks = Ranks::new(communicator.clone(), reduce);
        let watch = RankWatch::begin(&ranks, stop)?;
        let reduced = match reduce {
            Reduce::Exact => "exact",
            Reduce::Fast => "fast",
        };
        // Other instructions round otherwise.
        let program = format!("{} {:?} {reduced}", build(), cpu::isa());
        ranks.require_same("the program, its instruction set or --reduce", program.as_bytes())?;
        Ok(RankGroup { communicator, watch, ranks })
    }

    /// The host of each rank.
    pub fn hosts(&self) -> &[String] {
        self.watch.hosts()
    }

    /// What carries the messages, with its version.
    pub fn library(&self) -> String {
        self.communicator.library()
    }

    /// Waits for all ranks and leaves them in order.
    pub fn finish(self) {
        if self.ranks.largest(0).is_ok() {
            self.watch.leave(None);
            self.communicator.finish();
        }
    }

    /// Leaves because of an error of this rank, which the others are told. If a rank was lost, the process ends here, with a
    /// message that names it.
    pub fn fail(self, problem: &str, is_lost: bool) {
        if is_lost {
            std::thread::sleep(VERDICT);
        }
        self.watch.leave(Some(problem));
    }
}
