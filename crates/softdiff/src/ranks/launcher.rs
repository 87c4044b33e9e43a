//! Who started this process among others: told by the variables that launchers set.

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
}

/// Rank, number of ranks, and number of ranks on this machine. `SLURM_STEP_NUM_TASKS` is set by `srun` and not in the batch
/// script around it.
const VARIABLES: [(Launcher, [&str; 3]); 4] = [
    (Launcher::OpenMpi, ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"]),
    (Launcher::Mpich, ["PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"]),
    (Launcher::Slurm, ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS_PER_NODE"]),
    (Launcher::Torchrun, ["RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"]),
];

impl Launch {
    /// What the environment says; none for a process that is alone.
    pub fn from_env() -> Option<Launch> {
        Launch::from(&|name| std::env::var(name).ok())
    }

    fn from(variable: &dyn Fn(&str) -> Option<String>) -> Option<Launch> {
        let number = |name: &str| variable(name).and_then(|text| text.trim().parse::<usize>().ok());
        let found = VARIABLES.iter().find_map(|(launcher, [rank, size, local])| {
            let (rank, size) = (number(rank)?, number(size)?);
            Some(Launch { launcher: *launcher, rank, size, local_size: number(local) })
        });
        found.filter(|launch| launch.size > 1)
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
        let found = |launcher, rank, size, local_size| Some(Launch { launcher, rank, size, local_size });
        let open = [("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "2")];
        assert_eq!(of(&open), found(Launcher::OpenMpi, 3, 4, Some(2)));
        assert_eq!(of(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")]), found(Launcher::Mpich, 0, 2, None));
        assert_eq!(of(&[("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "8")]), found(Launcher::Slurm, 1, 8, None));
        assert_eq!(of(&[("RANK", "1"), ("WORLD_SIZE", "2")]), found(Launcher::Torchrun, 1, 2, None));
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
