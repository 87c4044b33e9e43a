//! Who started this process among others: told by the variables that launchers set.

use super::RankError;
use softdiff_engine::Device;
use softdiff_engine::ranks::MpiFamily;
use std::fmt;

/// A program that starts several processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// `mpirun` of MPICH, Intel MPI, or another with the same process manager.
    Mpich,
    /// `srun`.
    Slurm,
    /// `torchrun`, or what sets its variables.
    Torchrun,
}

/// This process's place among those that were started together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Who started it.
    pub launcher: Launcher,
    /// Its number, from 0.
    pub rank: usize,
    /// How many there are.
    pub size: usize,
    /// How many of them are on this machine, where that is known.
    pub local_size: Option<usize>,
    /// Its number among those on this machine, where that is known.
    pub local_rank: Option<usize>,
}

/// Rank, number of ranks, and number of ranks and rank on this machine. `SLURM_STEP_NUM_TASKS` is set by `srun` and not in the batch
/// script around it.
const VARIABLES: [(Launcher, [&str; 4]); 4] = [
    (
        Launcher::OpenMpi,
        ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"],
    ),
    (Launcher::Mpich, ["PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"]),
    (Launcher::Slurm, ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS_PER_NODE", "SLURM_LOCALID"]),
    (Launcher::Torchrun, ["RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK"]),
];

/// The process that started this one by `--gpus`; the other variables are then those of `torchrun`.
pub const STARTED_BY: &str = "SOFTDIFF_STARTED_BY";

impl Launch {
    /// What the environment says; none for a process that is alone.
    pub fn from_env() -> Option<Launch> {
        Launch::from(&|name| std::env::var(name).ok())
    }

    fn from(variable: &dyn Fn(&str) -> Option<String>) -> Option<Launch> {
        let number = |name: &str| variable(name).and_then(|text| text.trim().parse::<usize>().ok());
        // These start their processes inside of another launcher's.
        let is_innermost = |launcher: &Launcher| {
            *launcher == Launcher::Torchrun
                && ["TORCHELASTIC_RUN_ID", STARTED_BY].iter().any(|name| variable(name).is_some())
        };
        let innermost = VARIABLES.iter().filter(|(launcher, _)| is_innermost(launcher));
        let found = innermost.chain(&VARIABLES).find_map(|(launcher, [rank, size, local_size, local_rank])| {
            let (rank, size) = (number(rank)?, number(size)?);
            let (local_size, local_rank) = (number(local_size), number(local_rank));
            Some(Launch { launcher: *launcher, rank, size, local_size, local_rank })
        });
        found.filter(|launch| launch.size > 1)
    }

    /// The number of this process's GPU among those of the machine. Where the launcher does not say it, the ranks of a machine
    /// follow each other.
    fn local(&self) -> usize {
        self.local_rank.unwrap_or(self.rank % self.local_size.unwrap_or(self.size).max(1))
    }

    /// Opens this process's device, of which each rank of a machine has its own: `auto` and `cuda` are the GPU with the number of
    /// the process on its machine.
    pub fn open_device(&self, choice: &str) -> Result<Device, RankError> {
        if self.launcher == Launcher::Torchrun && choice != "cpu" {
            self.meeting_place()?;
        }
        Ok(Device::open_local(choice, self.local())?)
    }

    /// Where the ranks find each other without MPI, `HOST:PORT`.
    pub(super) fn meeting_place(&self) -> Result<String, RankError> {
        meeting_place(&|name| std::env::var(name).ok())
    }

    /// The library that this launcher starts processes for, where it says so.
    pub(super) fn family(&self) -> Option<MpiFamily> {
        match self.launcher {
            Launcher::OpenMpi => Some(MpiFamily::OpenMpi),
            Launcher::Mpich => Some(MpiFamily::Mpich),
            Launcher::Slurm | Launcher::Torchrun => None,
        }
    }

    /// Threads for this process, where the ranks of a machine are not bound to cores of their own: its part of all cores.
    pub fn threads(&self) -> Option<usize> {
        let bound = std::thread::available_parallelism().ok()?.get();
        let cores = std::fs::read_dir("/sys/devices/system/cpu").ok().map(|entries| {
            let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
            names.filter(|name| name.strip_prefix("cpu").is_some_and(|rest| rest.parse::<usize>().is_ok())).count()
        });
        let is_chosen = std::env::var_os("RAYON_NUM_THREADS").is_some();
        match (self.local_size, cores) {
            (Some(local), Some(cores)) if !is_chosen && bound == cores => Some((cores / local.max(1)).max(1)),
            _ => None,
        }
    }
}

/// Rank 0 listens where `torchrun` says that it is, or on the next port where `torchrun` itself listens there.
fn meeting_place(variable: &dyn Fn(&str) -> Option<String>) -> Result<String, RankError> {
    let (address, port) = (variable("MASTER_ADDR"), variable("MASTER_PORT"));
    let port = port.and_then(|port| port.trim().parse::<u16>().ok());
    let (Some(address), Some(port)) = (address, port) else { return Err(RankError::NoMeetingPlace) };
    let is_taken = variable("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let port = port.checked_add(u16::from(is_taken)).ok_or(RankError::NoMeetingPlace)?;
    Ok(place(&address, port))
}

/// `HOST:PORT`, also of an address of IPv6.
pub(super) fn place(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Launcher::OpenMpi => "mpirun of Open MPI",
            Launcher::Mpich => "mpirun of MPICH",
            Launcher::Slurm => "srun",
            Launcher::Torchrun => "torchrun",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<Launch> {
        Launch::from(&|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn every_launcher_is_known_by_its_variables() {
        let found = |launcher, rank, size, local_size, local_rank| {
            Some(Launch { launcher, rank, size, local_size, local_rank })
        };
        let open = [
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
        ];
        assert_eq!(of(&open), found(Launcher::OpenMpi, 3, 4, Some(2), Some(1)));
        let hydra = [("PMI_RANK", "2"), ("PMI_SIZE", "4"), ("MPI_LOCALNRANKS", "2"), ("MPI_LOCALRANKID", "0")];
        assert_eq!(of(&hydra), found(Launcher::Mpich, 2, 4, Some(2), Some(0)));
        let slurm = [("SLURM_PROCID", "5"), ("SLURM_STEP_NUM_TASKS", "8"), ("SLURM_LOCALID", "1")];
        assert_eq!(of(&slurm), found(Launcher::Slurm, 5, 8, None, Some(1)));
        let torchrun = [("RANK", "1"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "1"), ("LOCAL_WORLD_SIZE", "2")];
        assert_eq!(of(&torchrun), found(Launcher::Torchrun, 1, 2, Some(2), Some(1)));
        assert_eq!(of(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")]), found(Launcher::Mpich, 0, 2, None, None));
    }

    #[test]
    fn torchrun_and_gpus_count_inside_of_another_launcher() {
        let (slurm, torchrun) =
            ([("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "2")], [("RANK", "5"), ("WORLD_SIZE", "8")]);
        let launcher = |variables: &[(&str, &str)]| of(variables).map(|launch| (launch.launcher, launch.rank));
        assert_eq!(launcher(&[&slurm[..], &torchrun].concat()), Some((Launcher::Slurm, 1)));
        for mark in ["TORCHELASTIC_RUN_ID", STARTED_BY] {
            let variables = [&slurm[..], &torchrun, &[(mark, "1")]].concat();
            assert_eq!(launcher(&variables), Some((Launcher::Torchrun, 5)));
        }
    }

    #[test]
    fn the_gpu_of_a_rank_is_its_number_on_its_machine() {
        let local = |local_size, local_rank| {
            Launch { launcher: Launcher::Slurm, rank: 5, size: 8, local_size, local_rank }.local()
        };
        assert_eq!([local(Some(4), Some(2)), local(Some(4), None), local(None, None)], [2, 1, 5]);
    }

    #[test]
    fn without_mpi_the_ranks_meet_at_the_master_or_beside_torchruns_agent() {
        let place = |variables: &[(&str, &str)]| {
            let named =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into());
            meeting_place(&named).map_err(|error| error.to_string())
        };
        let (address, port) = (("MASTER_ADDR", "node0"), ("MASTER_PORT", "29500"));
        assert_eq!(place(&[address, port]).unwrap(), "node0:29500");
        assert_eq!(place(&[address, port, ("TORCHELASTIC_USE_AGENT_STORE", "True")]).unwrap(), "node0:29501");
        assert_eq!(place(&[address, port, ("TORCHELASTIC_USE_AGENT_STORE", "False")]).unwrap(), "node0:29500");
        assert_eq!(place(&[("MASTER_ADDR", "::1"), port]).unwrap(), "[::1]:29500");
        for missing in [vec![address], vec![port], vec![address, ("MASTER_PORT", "x")]] {
            assert!(place(&missing).unwrap_err().contains("MASTER_ADDR"));
        }
    }

    #[test]
    fn a_process_alone_or_in_a_batch_script_is_no_rank() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]), None);
        // Around `srun`.
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")]), None);
        assert_eq!(of(&[("RANK", "x"), ("WORLD_SIZE", "2")]), None);
    }
}
