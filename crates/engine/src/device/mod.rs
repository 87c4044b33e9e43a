//! Where graphs run: one way to execute and to train them, whatever the device.

mod cpu_learner;
mod executor;
mod learner;

pub use executor::Executor;
pub(crate) use learner::TrainingStep;
pub use learner::{Learner, LearnerSpec, LossOutputs, Record};

use crate::cuda::{self, CudaDevice, Session};
use crate::error::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// The CPU, or a GPU with its libraries.
#[derive(Clone)]
pub enum Device {
    /// All cores of this machine.
    Cpu,
    /// A GPU.
    Cuda(Arc<Session>),
}

impl Device {
    /// `auto` (the first GPU, else the CPU), `cpu`, `cuda` or `cuda:N`.
    pub fn open(choice: &str) -> Result<Device> {
        Device::choose(choice).map(|(device, _)| device)
    }

    /// The device of the process that is number `local` of those on this machine: as [`Device::open`], but `auto` and `cuda` mean the
    /// GPU of that number. Where it sees only one, a launcher gave it that one.
    pub fn open_local(choice: &str, local: usize) -> Result<Device> {
        match (choice, CudaDevice::count()) {
            ("auto" | "cuda", Ok(count)) => match (choice, local_gpu(local, count)) {
                // As for a process alone, a GPU that cannot be used is passed over; the ranks compare what they have.
                ("auto", 0) => Device::open(choice),
                (_, number) => Device::named(&format!("cuda:{number}")),
            },
            _ => Device::open(choice),
        }
    }

    /// As [`Device::open`]; where `auto` passes over a GPU that is there but cannot be used, with the reason.
    pub fn choose(choice: &str) -> Result<(Device, Option<Error>)> {
        if choice != "auto" {
            return Device::named(choice).map(|device| (device, None));
        }
        Ok(match Session::open(0) {
            Ok(session) => (Device::Cuda(session), None),
            // Without a driver there is nothing to say: most machines are like that.
            Err(error) => (Device::Cpu, Some(error).filter(|_| cuda::has_driver())),
        })
    }

    fn named(choice: &str) -> Result<Device> {
        match choice {
            "cpu" => Ok(Device::Cpu),
            "cuda" => Session::open(0).map(Device::Cuda),
            _ => match choice.strip_prefix("cuda:").and_then(|number| number.parse().ok()) {
                Some(number) => Session::open(number).map(Device::Cuda),
                None => Err(Error::Device {
                    what: format!("there is no device {choice:?}"),
                    problem: "a device is auto, cpu, cuda or cuda:N".into(),
                    hint: "softdiff doctor shows what this machine has".into(),
                }),
            },
        }
    }

    /// Whether it is a GPU.
    pub fn is_gpu(&self) -> bool {
        matches!(self, Device::Cuda(_))
    }
}

/// The number of a process's GPU.
fn local_gpu(local: usize, count: usize) -> usize {
    if count == 1 { 0 } else { local }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => write!(f, "cpu ({} threads, {:?})", rayon::current_num_threads(), crate::cpu::isa()),
            Device::Cuda(session) => write!(f, "cuda:{} ({})", session.device.ordinal, session.device.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_process_of_a_machine_has_its_own_gpu_or_the_only_one_it_sees() {
        assert_eq!([(0, 8), (3, 8), (3, 1), (0, 1)].map(|(local, count)| local_gpu(local, count)), [0, 3, 0, 0]);
    }

    #[test]
    fn a_device_is_chosen_by_name_and_a_wrong_name_is_an_error() {
        assert!(matches!(Device::open("cpu"), Ok(Device::Cpu)));
        assert!(Device::open("auto").is_ok(), "auto always finds something");
        for wrong in ["gpu", "cuda:", "cuda:x", "", "cuda:-1"] {
            let error = Device::open(wrong).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains("auto, cpu, cuda or cuda:N"), "{wrong:?}: {error}");
        }
    }
}
