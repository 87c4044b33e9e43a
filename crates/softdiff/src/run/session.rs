//! `env.json`: who worked on a run, where and when. A list, one entry per process.

use super::lock::Holder;
use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

/// A process that worked on a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSession {
    /// When it began, in seconds since 1970.
    pub started_unix: u64,
    /// The program.
    pub build: String,
    /// Process and machine.
    #[serde(flatten)]
    pub process: Holder,
    /// What it computed on.
    pub device: String,
    /// Threads of the CPU.
    pub threads: usize,
    /// The step it went on from.
    pub from_step: u64,
    /// Memory of the GPU, where it computed on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_memory: Option<DeviceMemory>,
}

/// Memory of a GPU, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceMemory {
    /// The most that was in use, by all its processes together.
    pub used: u64,
    /// All there is.
    pub total: u64,
}

impl RunSession {
    /// This process, from now on.
    pub fn now(device: &str, threads: usize, from_step: u64) -> RunSession {
        let started_unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let (build, process, device) = (build(), Holder::this(), device.into());
        RunSession { started_unix, build, process, device, threads, from_step, device_memory: None }
    }
}

/// This program: name, version and what it was built for.
pub fn build() -> String {
    let (version, arch, os) = (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH, std::env::consts::OS);
    format!("softdiff {version} {arch}-{os}")
}
