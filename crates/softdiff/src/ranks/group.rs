//! Joining the other ranks of a run, and leaving them.

use super::meeting::{PATIENCE, meet};
use super::watch::RankWatch;
use super::{Launch, Launcher};
use crate::run::{StopRequest, build};
use softdiff_engine::cuda::{NcclId, NcclRank, Session};
use softdiff_engine::ranks::{Communicator, MpiRank, Ranks, Reduce};
use softdiff_engine::{Device, Hint, cpu};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// Shares of a batch where the recipe says nothing: 1, 2, 4 and 8 ranks then have the same bits.
pub const SHARES: usize = 8;
/// Longer than the watch takes to notice that a rank is lost.
const VERDICT: Duration = Duration::from_secs(12);

/// Why several processes cannot work together.
#[derive(Debug, thiserror::Error)]
pub enum RankError {
    /// Only `torchrun`'s variables are set, and the processes are on CPUs.
    #[error(
        "{launcher} started {size} processes on CPUs, between which MPI carries messages, and {launcher} starts no MPI"
    )]
    NoTransport {
        /// Who started them.
        launcher: Launcher,
        /// How many.
        size: usize,
    },
    /// `torchrun`'s variables do not say where rank 0 is.
    #[error("MASTER_ADDR and MASTER_PORT do not say where rank 0 is")]
    NoMeetingPlace,
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
    /// MPI, NCCL, a device, or the connections between the hosts.
    #[error(transparent)]
    Engine(#[from] softdiff_engine::Error),
}

impl Hint for RankError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            RankError::NoTransport { size, .. } => format!(
                "start it by MPI: mpirun -n {size} softdiff ..., or give each process a GPU; for one process alone unset RANK and WORLD_SIZE"
            )
            .into(),
            RankError::NoMeetingPlace => "set them as torchrun does: MASTER_ADDR=HOST MASTER_PORT=29500".into(),
            RankError::OtherLibrary { .. } => {
                "name the launcher's library: SOFTDIFF_MPI=/path/libmpi.so; under srun, also try --mpi=pmix or --mpi=pmi2"
                    .into()
            }
            RankError::Lost(_) => "start all ranks again; training continues from the last checkpoint".into(),
            RankError::Engine(error) => return error.hint(),
        })
    }
}

/// An error where the ranks would compute something else, or round otherwise.
fn require_alike(ranks: &Ranks, device: &Device) -> Result<(), RankError> {
    let reduced = match ranks.reduce {
        Reduce::Exact => "exact",
        Reduce::Fast => "fast",
    };
    let (computed_on, what) = match device {
        Device::Cpu => (format!("{:?}", cpu::isa()), "the program, its device, its instruction set or --reduce"),
        Device::Cuda(session) => {
            let (cudnn, cublas) = session.versions();
            let gpu = format!("{} cuDNN {cudnn} cuBLAS {cublas}", session.device.name);
            (gpu, "the program, its device, cuDNN, cuBLAS or --reduce")
        }
    };
    let program = format!("{} {computed_on} {reduced}", build());
    Ok(ranks.require_same(what, program.as_bytes())?)
}

/// What rank 0 sent.
fn nccl_id(bytes: Vec<u8>) -> Result<NcclId, softdiff_engine::Error> {
    let problem = "sent no identifier of NCCL".into();
    let bytes = bytes.try_into().map_err(|_| softdiff_engine::Error::Rank { rank: Some(0), problem })?;
    Ok(NcclId::from_bytes(bytes))
}

/// Joins the GPUs of the other ranks, which the watch tells if it fails.
fn join_gpus(
    session: &Session,
    id: NcclId,
    (rank, size): (usize, usize),
    watch: &RankWatch,
) -> Result<Arc<NcclRank>, RankError> {
    let joined = NcclRank::join(session, id, rank, size).inspect_err(|error| {
        if matches!(error, softdiff_engine::Error::Rank { rank: None, .. }) {
            std::thread::sleep(VERDICT);
        }
        watch.leave(Some(&error.to_string()));
    });
    Ok(Arc::new(joined?))
}

/// This process among those that were started with it.
pub struct RankGroup {
    communicator: Arc<dyn Communicator>,
    gpu: Option<Arc<NcclRank>>,
    watch: RankWatch,
    /// What the work needs of it.
    pub ranks: Ranks,
}

impl RankGroup {
    /// Joins the processes that were started with this one, each with its device: by MPI, or where the launcher starts no MPI by
    /// TCP and NCCL, for which all must come within two minutes. From then on a lost rank ends the process, with the words and the exit code of `stop`.
    pub fn join(launch: Launch, device: &Device, reduce: Reduce, stop: &StopRequest) -> Result<RankGroup, RankError> {
        let Launch { launcher, rank, size, .. } = launch;
        if launcher == Launcher::Torchrun {
            let Device::Cuda(session) = device else { return Err(RankError::NoTransport { launcher, size }) };
            let bring = || Ok(NcclId::new()?.bytes().to_vec());
            let met = meet(&launch.meeting_place()?, (rank, size), NcclId::BYTES, bring, PATIENCE)?;
            let watch = RankWatch::over(rank, met.hosts, met.peers, stop)?;
            let gpu = join_gpus(session, nccl_id(met.token)?, (rank, size), &watch)?;
            let ranks = Ranks::with_gpus(gpu.clone(), gpu.clone(), reduce);
            require_alike(&ranks, device)?;
            return Ok(RankGroup { communicator: gpu.clone(), gpu: Some(gpu), watch, ranks });
        }
        let communicator: Arc<dyn Communicator> = Arc::new(MpiRank::join(launch.family())?);
        if communicator.size() != size {
            let (library, seen) = (communicator.library(), communicator.size());
            return Err(RankError::OtherLibrary { launcher, size, library, seen });
        }
        let ranks = Ranks::new(communicator.clone(), reduce);
        // Before the GPUs are joined, which a rank that is lost would keep waiting.
        let watch = RankWatch::begin(&ranks, stop)?;
        require_alike(&ranks, device)?;
        let Device::Cuda(session) = device else { return Ok(RankGroup { communicator, gpu: None, watch, ranks }) };
        let own = if ranks.is_first() { NcclId::new()?.bytes().to_vec() } else { vec![] };
        let id = nccl_id(ranks.broadcast(own)?)?;
        let gpu = join_gpus(session, id, (ranks.rank(), size), &watch)?;
        let ranks = Ranks::with_gpus(communicator.clone(), gpu.clone(), reduce);
        Ok(RankGroup { communicator, gpu: Some(gpu), watch, ranks })
    }

    /// For work that saves nothing on its way: a signal to any rank ends all of them.
    pub fn end_by_signal(&self) {
        self.watch.end_by_signal();
    }

    /// The host of each rank.
    pub fn hosts(&self) -> &[String] {
        self.watch.hosts()
    }

    /// What carries the messages, with its version.
    pub fn library(&self) -> String {
        self.communicator.library()
    }

    /// What carries the gradients between GPUs.
    pub fn gpu(&self) -> Option<&NcclRank> {
        self.gpu.as_deref()
    }

    /// Waits for all ranks and leaves them in order.
    pub fn finish(self) {
        if self.ranks.largest(0).is_ok() {
            self.watch.leave(None);
            if let Some(gpu) = &self.gpu {
                gpu.finish();
            }
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
        // Freeing a GPU's memory waits for its work, which may wait for the others for ever. The end of the process frees it.
        std::mem::forget((self.communicator, self.gpu, self.ranks));
    }
}
